"""What a planted fault is, and all of them."""

from dataclasses import dataclass
from pathlib import Path

from tests.planted.edits import SOURCE, Edit


@dataclass(frozen=True, slots=True)
class Fault:
    """A change of the source that breaks one rule. The tests of the rule have to notice it."""

    # A row of docs/conformance; empty: the fault belongs to no row, and `tests` have to notice it.
    rule: str
    what: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.rule}: {self.what}" if self.rule else self.what

    def changed_files(self, source: Path = SOURCE) -> dict[str, str]:
        """The text of each file that the fault changes."""
        texts: dict[str, str] = {}
        for edit in self.edits:
            path = source / edit.file
            text = texts.get(edit.file)
            if text is None:
                text = path.read_text() if path.exists() else ""
            texts[edit.file] = edit.apply(text)
        return texts


def fault(rule: str, what: str, *edits: Edit) -> Fault:
    """A violation of one row of a conformance table."""
    return Fault(rule, what, edits)
