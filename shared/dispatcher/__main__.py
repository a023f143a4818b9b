"""Where ``python -m dispatcher`` begins: at the demo."""

from dispatcher.demo import main

main()
