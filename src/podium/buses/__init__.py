"""Where events are published and read: memory, files of JSON lines, Kafka; all adapters of the same ports."""
