"""The simulator: Perdure's own code, on a clock, a network and processes drawn from a seed."""
