"""Where events are published: memory and JSON-lines files; others join as adapters of the same port."""
