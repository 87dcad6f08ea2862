"""The HTTP server: a thin front end over `operations`, installed with `pip install 'podium[server]'`."""
