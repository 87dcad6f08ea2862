"""Reports what is wrong at a place in a workflow file."""

from collections.abc import Iterable

from podium.language.codes import Code
from podium.language.diagnostics import Report, Severity, did_you_mean
from podium.language.scalars import span_in_file
from podium.language.tree import Mapping, Node, Scalar, mark
from podium.text import quoted


class Problems:
    """The problems of one file, by the nodes they concern."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def is_enough(self) -> bool:
        """Whether no further problem will be listed. Then this one is only counted, without composing its
        message.
        """
        if self.report.is_full:
            self.report.count_only()
            return True
        return False

    def file_of(self, node: Node) -> str:
        """The name of the file in which a node was written; files that it names are searched beside that
        file.
        """
        return self.report.source_of(node.start).name

    def line_of(self, node: Node, other: Node) -> str:
        """The position of a node, for a message about another one."""
        file = f" of {self.file_of(node)}" if self.file_of(node) != self.file_of(other) else ""
        return f"line {self.report.position(node.start).line}{file}"

    def error(self, code: Code, node: Node, message: str, hint: str) -> None:
        self.report.error(code, *mark(node), message, hint)

    def warning(self, code: Code, node: Node, message: str, hint: str) -> None:
        self.report.warning(code, *mark(node), message, hint)

    def at_key(
        self,
        code: Code,
        mapping: Mapping,
        key: str,
        message: str,
        hint: str,
        severity: Severity = Severity.ERROR,
    ) -> None:
        report = self.error if severity is Severity.ERROR else self.warning
        report(code, mapping.entries[key].key, message, hint)

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
        """Report a problem in a part of a text, translating its position in the value to the file."""
        report = self.report.error if severity is Severity.ERROR else self.report.warning
        source, base = self.report.source_of(scalar.start), self.report.base(scalar.start)
        there = Scalar(scalar.start - base, scalar.end - base, scalar.text, scalar.value)
        first, last = span_in_file(source, there, start, end)
        report(code, base + first, base + last, message, hint)


def suggestion(word: str, known: Iterable[str], what: str, otherwise: str = "") -> str:
    """The nearest known word, and all of them if they are few; `otherwise`: what to do if none of them is
    meant.
    """
    words = list(dict.fromkeys(known))
    if not words:
        return otherwise or f"Remove it; no {what} are defined here."
    shown = ", ".join(words[:12]) + (" and others" if len(words) > 12 else "")
    near = did_you_mean(word, words)
    if near:
        return f"{near} {what.capitalize()}: {shown}."
    return f"{otherwise.removesuffix('.')}, or use one of: {shown}." if otherwise else f"Use one of: {shown}."


__all__ = ["Problems", "quoted", "suggestion"]
