"""Use cases of hooks: deliveries of other systems that start runs."""
