"""Would the tests notice if the rules were wrong? `make mutate` plants faults to find out.

mutmut makes hundreds of copies of the functions that decide what runs and in which order, each with one small
fault, and runs the unit tests against each. A fault that no test notices survives. At least nine of ten must
be noticed, and every survivor stands in docs/mutation.md with the reason why it may live: usually that it
changes nothing anyone could see. What is mutated and which tests run is in pyproject.toml, [tool.mutmut].

A survivor is known by its function and by the lines it changes, not by mutmut's number for it, which moves
with every edit. Exits with 1 if too many survive or if one survives that the page does not list.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import get_module_from_key, orig_function_and_class_names_from_key

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "mutation.md"
LEAST_NOTICED = 0.9
# A mutant that hangs or crashes is noticed as well: the tests do not pass.
_NOTICED = {"killed", "timeout", "segfault"}
_BLOCK = re.compile(r"^```diff\n(.*?)^```\n+(?=([^\n]*))", re.DOTALL | re.MULTILINE)


class Fault(NamedTuple):
    """Where a fault was planted, and the changed lines with their + and -, but without indentation."""

    function: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"## {self.function}", "", "```diff", *self.lines, "```"])


def main() -> int:
    # mutmut finds its settings and its results in the folder it is called in.
    os.chdir(ROOT)
    _plant_and_test()
    outcomes = _outcomes()
    counts = Counter(outcomes.values())
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    if counts["not checked"] or not outcomes:
        print("mutmut did not finish; its output is above.")
        return 1

    noticed = sum(counts[outcome] for outcome in _NOTICED)
    print(f"{noticed} of {len(outcomes)} faults were noticed: {noticed / len(outcomes):.1%}.")
    survivors = {_fault(name) for name, outcome in outcomes.items() if outcome not in _NOTICED}
    reasons = listed(PAGE.read_text() if PAGE.exists() else "")
    unlisted = sorted(survivors - reasons.keys())
    for fault in unlisted:
        print(f"\nSurvives without a reason in {PAGE.relative_to(ROOT)}:\n\n{fault}")
    for fault in sorted(reasons.keys() - survivors):
        print(
            f"\nNo longer survives, or no longer exists; take it out of {PAGE.relative_to(ROOT)}:\n\n{fault}"
        )
    enough = noticed >= LEAST_NOTICED * len(outcomes)
    if not enough:
        print(f"\nAt least {LEAST_NOTICED:.0%} must be noticed.")
    return 0 if enough and not unlisted else 1


def listed(page: str) -> dict[Fault, str]:
    """The faults on the page with their reasons.

    Under the heading with the function's name stand blocks of changed lines, faults of one block divided by an
    empty line, each block followed by the reason. Without a reason a block does not count.
    """
    reasons = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        function, _, text = section.partition("\n")
        for block, reason in _BLOCK.findall(text):
            if reason and not reason.startswith(("```", "#")):
                for lines in block.strip("\n").split("\n\n"):
                    reasons[Fault(function.strip(), _changes(lines))] = reason
    return reasons


def _plant_and_test() -> None:
    # Results of an earlier run would be taken for those of this one.
    shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    subprocess.run([sys.executable, "-m", "mutmut", "run"], cwd=ROOT, check=False)


def _outcomes() -> dict[str, str]:
    outcomes = {}
    for path in walk_mutatable_files():
        results = SourceFileMutationData(path=path)
        results.load()
        for name, code in results.exit_code_by_key.items():
            outcomes[name] = status_by_exit_code[code]
    return outcomes


def _fault(name: str) -> Fault:
    function, class_name = orig_function_and_class_names_from_key(name)
    place = [get_module_from_key(name), *([class_name] if class_name else []), function]
    return Fault(".".join(place), _changes(get_diff_for_mutant(name)))


def _changes(diff: str) -> tuple[str, ...]:
    return tuple(
        f"{line[0]} {line[1:].strip()}"
        for line in diff.splitlines()
        if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))
    )


if __name__ == "__main__":
    sys.exit(main())
