"""An example world library: one day of real air traffic."""
