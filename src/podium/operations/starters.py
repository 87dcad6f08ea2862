"""Workflows to start from, shipped with Podium as files in `templates`.

Here is what each shows; the file itself is what a user gets, comments included.
"""

from importlib.resources import files
from typing import Final

# In the order in which one would learn from them.
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
