"""Contracts, and what `podium contract validate` prints about each."""

from typing import Final

from podium.language.reader import MAX_BYTES
from tests.messages.corpus import Corpus

_GENERATED: Final[dict[str, bytes]] = {
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

CONTRACTS: Final = Corpus("contracts", ("contract", "validate"), _GENERATED)
