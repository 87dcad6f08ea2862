"""Use cases of schedules: define, change and look at them, and let them start runs."""
