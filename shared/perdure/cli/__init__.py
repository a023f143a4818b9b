"""The command `perdure`: words in, lines or JSON out."""
