"""`- include: FILE` in a list of steps is replaced by the steps of another file.

The file holds a list of steps. They are inserted into the list before it is checked, so that all later code
sees one list; only positions record where a step was written (`Report.splice`).
"""

from typing import Final

from podium.language.codes import Code
from podium.language.diagnostics import Report
from podium.language.files import Files, FoundFile
from podium.language.problems import Problems
from podium.language.reader import MAX_BYTES, read_yaml
from podium.language.tree import Mapping, Node, Scalar, Sequence, describe, shift
from podium.plan.plan import MAX_NESTING
from podium.text import quoted

# Each level of steps takes up to four levels of YAML.
YAML_DEPTH: Final = 4 * MAX_NESTING + 32


class Includes:
    """The files that one workflow includes, directly or indirectly."""

    def __init__(self, files: Files, report: Report, reports: list[Report]) -> None:
        self._files = files
        self._report = report
        self._problems = Problems(report)
        # Reports about the files themselves: why they cannot be read.
        self._reports = reports
        # The including files of each included one, outermost first, by the position where its text starts.
        self._around: dict[int, tuple[str, ...]] = {}
        # Total size, limited because files that include others twice, over many levels, would grow
        # exponentially.
        self._bytes = 0

    def steps(self, path: Scalar) -> list[Node] | None:
        """The steps of the file that an entry names; None if there is a problem, which is reported."""
        name = str(path.value)
        found = self._files.read(name, self._problems.file_of(path))
        if found is None:
            return self._refuse(
                path,
                Code.FILE_NOT_FOUND,
                f"file {quoted(name)} not found.",
                "Add it, or correct the path: it starts at the folder of the file that includes it.",
            )
        around = self._around.get(self._report.base(path.start), ())
        if found.identity in around:
            way = "" if around[-1] == found.identity else ", by way of others"
            return self._refuse(
                path,
                Code.CALLS_ITSELF,
                f"the file {quoted(name)} includes itself{way}.",
                "Remove one of the entries, or write a loop: `while:` or `repeat_until:`.",
            )
        if len(around) >= MAX_NESTING:
            return self._refuse(
                path,
                Code.STEPS_NESTED_TOO_DEEP,
                f"files are included more than {MAX_NESTING} deep.",
                "Include them from further out.",
            )
        self._bytes += len(found.content)
        if self._bytes > MAX_BYTES:
            return self._refuse(
                path,
                Code.FILE_TOO_LARGE,
                f"the included files have more than {MAX_BYTES // 2**20} MiB together.",
                "Include less, or `call` a workflow: it is read once.",
            )
        return self._read(found, path, (*around, found.identity))

    def _read(self, found: FoundFile, path: Scalar, around: tuple[str, ...]) -> list[Node] | None:
        document = read_yaml(found.content, found.name, max_depth=YAML_DEPTH)
        self._reports.append(document.report)
        root = document.root
        if root is None:
            return None
        if not isinstance(root, Sequence) or not root.items:
            return self._refuse(path, Code.WRONG_TYPE, *_not_a_list(str(path.value), root))
        base = self._report.splice(document.source)
        self._around[base] = around
        shift(root, base)
        return root.items

    def _refuse(self, path: Scalar, code: Code, message: str, hint: str) -> list[Node] | None:
        self._problems.error(code, path, message, hint)
        return None


def _not_a_list(name: str, root: Node) -> tuple[str, str]:
    if isinstance(root, Mapping) and "steps" in root.entries:
        return (
            f"the file {quoted(name)} is a workflow, not a list of steps.",
            "Use `call:` to run it as a step, or include a file that starts with `- name:`.",
        )
    what = "an empty list" if isinstance(root, Sequence) else describe(root)
    return (
        f"the file {quoted(name)} is {what}, not a list of steps.",
        "Write a list into it, each entry a step that starts with `- name:`.",
    )
