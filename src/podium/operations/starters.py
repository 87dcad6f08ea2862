"""Workflow templates, shipped with Podium as files in `templates`.

Here is a description of each; a user gets the file itself, including comments.
"""

from importlib.resources import files
from typing import Final

# In a sensible order for learning.
STARTERS: Final = {
    "basic": "Steps in a row, with a condition, a retry and a clean-up",
    "agent-loop": "Tests, and an agent that mends what fails, until they pass",
    "fan-out": "The same work for each item of a list, several in parallel",
    "graph": "Steps with dependencies; independent ones run in parallel",
    "approval": "A person decides before it continues",
    "poll": "Ask again and again until something is ready",
}


def starter(name: str) -> bytes:
    """The text of one of them."""
    return (files("podium") / "templates" / f"{name}.yaml").read_bytes()
