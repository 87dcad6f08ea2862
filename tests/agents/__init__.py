"""The real agent programs, asked by our providers, answered by scripted model servers on loopback."""
