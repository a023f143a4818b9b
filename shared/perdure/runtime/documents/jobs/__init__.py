"""Jobs at work: found, driven, and told of."""
