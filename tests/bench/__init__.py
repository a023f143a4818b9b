"""How fast it is: each figure beside the floor it is held against, measured in one run."""
