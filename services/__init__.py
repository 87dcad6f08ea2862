"""Real servers for tests, benchmarks and demos: found, started on free loopback ports, and stopped again.

One module per server. Whatever is started here binds 127.0.0.1, keeps its data in a temporary folder and is stopped
by pid, also when the process that started it is killed.
"""
