"""The simulator: Perdure's own code on a clock, a network and processes that a seed decides.

A *play* is drawn from a seed. Its processes run the real engine, tickers, landing, projection,
trim and reader; a step is one callback of their event loop, and which comes next is drawn. Commits,
objects, tables and messages are lost, late, or done twice; processes die and freeze at any step. Each
commit tells the *truth*, a model in plain dictionaries, which names the invariant that it breaks::

    python -m tests.simulator --steps 100000            look for a violation
    python -m tests.simulator --seed 5000 --mix storms  one mix of actors and weather
    python -m tests.simulator --replay 3 --mix storms   one play, line by line

Exit code 1 says that an invariant was broken.

loop       steps and lives             truth, world, commands, rows   what is true
disk       records that outlive        chunks, notes, library         and of documents, large bodies
stores, wire, objects, tables          told, answers, reading, landed what was answered, read, landed
faults, tight  what goes wrong         clients, writers, keepers      who acts
stage      processes of a play         scribes, librarians            who writes these
play, summary  a seed, and many        closing                        when all is quiet
"""
