"""What one can ask of the system. The command line, the HTTP routes and the web page use these names."""
