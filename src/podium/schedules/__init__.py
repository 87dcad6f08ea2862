"""When a workflow is to run: schedules, the times they name, and what becomes of each of these times. Pure."""
