"""The world protocol as a model: worlds, clients and writers in every order that chance finds.

A *play* is drawn from a seed. Its actors are generators that pause wherever a rival could act;
its store commits atomically, loses answers, delivers commits late and, as DynamoDB does, shows
the records of one commit one after another. Every commit tells the *truth*, which no actor sees;
the truth, and a last look when all is quiet, name the promise that was broken.

Each rule of the protocol can be left out, to see what it is there for::

    python -m tests.models --rules                          what the rules are
    python -m tests.models --seeds 100000                   look for a violation; there is none
    python -m tests.models --seeds 20000 --without cut      see what the rule prevents
    python -m tests.models --replay 268 --mix failures --without cut    one play, line by line

Exit code 1 says that a promise was broken.

rules      what actors obey            store      commits, lost answers, torn reads
records    what lies in the store      engine     load, decide, commit, again
admission  clients                     drain, ticking  the writer of ticks
lifecycle  fork and destroy            truth, outcome  what must hold
play       a seed, played

The session protocol has a model of its own, small enough to be explored in every order:

session_fold       what a journal comes to     session_requests   what is decided on the head
session_promises   what must hold              session_protocol   actors, and every order of them
"""
