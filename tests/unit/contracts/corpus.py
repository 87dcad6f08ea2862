"""Contract files and, beside each, all that `podium contract validate` prints about it.

`NAME.txt` belongs to `NAME.yaml`. What is no readable text, or large, is not kept as a file but made here.
After a message was changed on purpose, `python -m tests.unit.contracts.corpus` writes the texts anew: read
the difference as a user would.
"""

import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from podium.cli.app import run
from podium.language.reader import MAX_BYTES

BROKEN: Final = Path(__file__).parent / "broken"
WARNED: Final = Path(__file__).parent / "warned"

GENERATED: Final[dict[str, bytes]] = {
    "bytes_in_another_encoding": "workflow_coordination:\n  # Größe\n".encode("latin-1"),
    "bytes_end_inside_a_character": b"workflow_coordination: \xe2\x82",
    "bytes_of_a_program": b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x90\x90",
    "character_nul": b"workflow_coordination:\n  note: a\0b\n",
    "character_escape": b"workflow_coordination:\n  note: \x1b[31mred\x1b[0m\n",
    "character_escape_of_one_byte": "workflow_coordination:\n  note: \x9b31mred\n".encode(),
    "character_byte_order_mark_inside": "workflow_coordination:\n  note: a\ufeffb\n".encode(),
    "larger_than_8_mib": b"# \n" * (MAX_BYTES // 3 + 1),
    "shown_without_carriage_returns": b"workflow_coordination:\r\n  workflow_definition: release\r\n",
}


class Printed(NamedTuple):
    """How a command ended: its exit code and what a terminal shows of both its outputs."""

    exit_code: int
    text: str


def names_in(folder: Path) -> list[str]:
    generated = GENERATED if folder == BROKEN else ()
    return sorted({*generated, *(file.stem for file in folder.glob("*.yaml"))})


def validated(folder: Path, name: str, *options: str) -> Printed:
    """Run `podium contract validate NAME.yaml` in the folder of the file."""
    if name not in GENERATED:
        return _validated_in(folder, name, *options)
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / f"{name}.yaml").write_bytes(GENERATED[name])
        return _validated_in(Path(made), name, *options)


def _validated_in(folder: Path, name: str, *options: str) -> Printed:
    screen = StringIO()
    with chdir(folder), redirect_stdout(screen), redirect_stderr(screen):
        exit_code = run(["contract", "validate", *options, f"{name}.yaml"])
    return Printed(exit_code, screen.getvalue())


if __name__ == "__main__":
    for folder in (BROKEN, WARNED):
        for name in names_in(folder):
            (folder / f"{name}.txt").write_bytes(validated(folder, name).text.encode())
