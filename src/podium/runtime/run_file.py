"""`run.json` in a run's directory: what the store knows of the run besides its events.

It is written once, when the run is created, for `podium store rebuild`. Directories of earlier versions have
none; then the same facts are read from the events, as far as they contain them. The first line of an export
has the same fields.
"""

from typing import Any, Final

import msgspec

from podium.log.runs import NewRun, Run, RunFacts
from podium.runtime.rundir import RunDirectory, write_atomically

_NAME: Final = "run.json"


def facts_of(run: Run) -> dict[str, Any]:
    """The facts of a run as plain JSON; metadata is an object there, and the identity is called `run`."""
    facts = RunFacts(**{name: getattr(run, name) for name in RunFacts.__struct_fields__})
    built = msgspec.to_builtins(facts)
    return {"run": built.pop("identity"), **built, "metadata": msgspec.json.decode(run.metadata)}


def new_run(facts: Any) -> NewRun:
    """The same run, to be created elsewhere. Raises `msgspec.ValidationError` if `facts` is not a result of
    `facts_of`.
    """
    given = msgspec.convert(facts, dict[str, Any])
    metadata = msgspec.json.encode(given.get("metadata", {}))
    plain = {**given, "identity": given.get("run"), "metadata": metadata}
    read = msgspec.convert(plain, RunFacts, builtin_types=(bytes,))
    return NewRun(**msgspec.structs.asdict(read))


def write_run_file(directory: RunDirectory, run: Run) -> None:
    content = msgspec.json.format(msgspec.json.encode(facts_of(run)))
    write_atomically(directory.path / _NAME, content, durable=False)


def read_run_file(directory: RunDirectory) -> NewRun | None:
    """None if it is missing or unreadable."""
    try:
        return new_run(msgspec.json.decode((directory.path / _NAME).read_bytes()))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
