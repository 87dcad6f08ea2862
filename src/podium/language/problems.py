"""Telling what is wrong with a place in a workflow file."""

from podium.language.codes import Code
from podium.language.diagnostics import Report, Severity, did_you_mean, quoted
from podium.language.scalars import span_in_file
from podium.language.tree import Mapping, Node, Scalar, mark


class Problems:
    """The problems of one file, by the nodes they are about."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def error(self, code: Code, node: Node, message: str, hint: str) -> None:
        self.report.error(code, *mark(node), message, hint)

    def warning(self, code: Code, node: Node, message: str, hint: str) -> None:
        self.report.warning(code, *mark(node), message, hint)

    def at_key(self, code: Code, mapping: Mapping, key: str, message: str, hint: str) -> None:
        self.error(code, mapping.entries[key].key, message, hint)

    def inside(
        self,
        code: Code,
        scalar: Scalar,
        start: int,
        end: int,
        message: str,
        hint: str,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """About a part of a text; its place in the value is found again in the file."""
        tell = self.report.error if severity is Severity.ERROR else self.report.warning
        tell(code, *span_in_file(self.report.source, scalar, start, end), message, hint)


def suggestion(word: str, known: list[str], what: str) -> str:
    """The nearest known word, and all of them when they are few."""
    if not known:
        return f"There are no {what} here."
    shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
    near = did_you_mean(word, known)
    return f"{near} {what.capitalize()}: {shown}.".strip()


__all__ = ["Problems", "quoted", "suggestion"]
