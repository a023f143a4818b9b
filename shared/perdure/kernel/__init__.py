"""The pure state machine: records, requests, and the functions that decide."""
