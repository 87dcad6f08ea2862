"""Buses for publishing and reading events: memory, files of JSON lines, Kafka; all are adapters of the same
ports.
"""
