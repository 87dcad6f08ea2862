"""Deliveries of other systems that start runs: definition of a hook, and signatures of deliveries. Pure."""
