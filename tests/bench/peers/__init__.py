"""Other products doing the like, in the versions named here, installed when they are asked for."""
