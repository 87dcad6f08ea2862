"""The HTTP front end: its routes in this process, and the whole server as a process of its own."""
