"""Deliveries of other systems that start runs: what a hook is, and how a delivery is signed. Pure."""
