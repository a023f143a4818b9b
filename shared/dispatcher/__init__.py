"""An agent that watches a sky and sends flights elsewhere when an airport closes."""
