"""Where ``python -m airspace`` begins: at the demo."""

import signal

# Ctrl-C while the libraries are still loading ends the process without a word: nothing has begun.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from airspace.demo import main  # noqa: E402 (after the line above, on purpose)

main()
