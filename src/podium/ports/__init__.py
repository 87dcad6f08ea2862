"""What Podium needs from the outside world, in its own terms."""
