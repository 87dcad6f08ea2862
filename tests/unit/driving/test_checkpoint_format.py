"""What is saved in a checkpoint has a version: a state with other parts is not read by code that does not know them."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from podium.log.notes import RunNotes
from podium.machine import accounts, agenda, checkpoint, spending, tree
from podium.machine.commands import Question, Record
from podium.machine.recalled import RecalledTime
from podium.runtime import checkpoints, state_tree
from podium.runtime.journal import JournalMark

# If this test fails, raise `_FORMAT` in runtime/checkpoints.py, and write here what the test prints.
KNOWN = {
    1: "3be63d939d256e0e",
    2: "86381ee57eacf9dd",
    3: "b19904363acb50fd",
    4: "93fdd347f53522bc",
    5: "332acdaeedf08a6b",
}


def _parts() -> dict[str, list[str]]:
    """The names of everything that a machine and its views are made of."""
    found: dict[str, list[str]] = {}
    for module in (tree, accounts, spending, agenda, checkpoint, state_tree):
        own = [one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__]
        found |= {one.__name__: _fields(one) for one in own if isinstance(one, type)}
    found |= {one.__name__: _fields(one) for one in (RunNotes, JournalMark, RecalledTime, Record, Question)}
    return {name: fields for name, fields in found.items() if fields}


def _fields(one: Any) -> list[str]:
    """With their types, if they are typed."""
    if issubclass(one, msgspec.Struct):
        return [f"{name}: {one.__annotations__.get(name)}" for name in one.__struct_fields__]
    names: Iterable[str] = getattr(one, "__slots__", ())
    return sorted(names)


def test_the_format_of_checkpoints_changes_with_what_is_saved() -> None:
    digest = sha256(repr(sorted(_parts().items())).encode()).hexdigest()[:16]
    number = int(checkpoints.VERSION.rpartition("/")[2])
    assert KNOWN.get(number) == digest, f"format {number} has the parts {digest}"
