"""Tasks: processes, output, secrets, requests and functions, each by itself."""
