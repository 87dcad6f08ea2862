"""What Podium needs from the world, in its own words."""
