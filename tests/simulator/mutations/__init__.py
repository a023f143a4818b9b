"""Mutations: each breaks one rule of the product code, and the proofs have to notice it.

A mutation that survives says that a proof does not look where it ought to. Rules of the protocol
are shown to be necessary in ``tests.models``; here the code itself is tried.
"""
