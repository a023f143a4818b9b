"""The local runner: the same handler files, driven by a loopback server."""
