"""When a workflow is to run: schedules, their times, and what happens at each of these times. Pure."""
