"""The Python client: its calls against the OpenAPI document, broken networks, and a real server."""
