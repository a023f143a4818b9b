"""Events of the cloud in, requests of the kernel out, and the replies back."""
