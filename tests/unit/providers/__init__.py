"""What providers ask, and what they make of answers: without any program or server."""
