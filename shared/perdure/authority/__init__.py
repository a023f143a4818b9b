"""Where decisions become durable: one engine, any store."""
