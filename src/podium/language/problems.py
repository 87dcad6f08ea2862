"""Telling what is wrong with a place in a workflow file."""

from collections.abc import Iterable

from podium.language.codes import Code
from podium.language.diagnostics import Report, Severity, did_you_mean
from podium.language.scalars import span_in_file
from podium.language.tree import Mapping, Node, Scalar, mark
from podium.text import quoted


class Problems:
    """The problems of one file, by the nodes they are about."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def is_enough(self) -> bool:
        """Whether no further problem will be listed. Then this one is only counted: nobody has to think about it."""
        if self.report.is_full:
            self.report.count_only()
            return True
        return False

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
        report = self.report.error if severity is Severity.ERROR else self.report.warning
        report(code, *span_in_file(self.report.source, scalar, start, end), message, hint)


def suggestion(word: str, known: Iterable[str], what: str, otherwise: str = "") -> str:
    """The nearest known word, and all of them when they are few; `otherwise`: what to do when it is none of them."""
    words = list(dict.fromkeys(known))
    if not words:
        return otherwise or f"Remove it; there are no {what} here."
    shown = ", ".join(words[:12]) + (" and others" if len(words) > 12 else "")
    near = did_you_mean(word, words)
    if near:
        return f"{near} {what.capitalize()}: {shown}."
    return f"{otherwise.removesuffix('.')}, or use one of: {shown}." if otherwise else f"Use one of: {shown}."


__all__ = ["Problems", "quoted", "suggestion"]
