"""The one place that picks real parts, by subject."""
