"""The use cases of the system. The command line, the HTTP routes and the web page share their names."""
