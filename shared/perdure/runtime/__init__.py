"""What runs a world: the tick, the landing, and the reading of both."""
