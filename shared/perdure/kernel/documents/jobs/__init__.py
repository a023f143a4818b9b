"""Jobs: work that outlives its process, kept as documents of a store. Pure."""
