"""Nodes that quote a price: an example of a package with nodes."""
