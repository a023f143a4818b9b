"""Sessions: agent runs whose journal is a stream, as records, requests and a fold. Pure."""
