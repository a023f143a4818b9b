"""Jobs: what an application declares of them, and the process that runs one to its end."""
