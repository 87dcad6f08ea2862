"""This state of Podium against an older commit, measured in turns: `python -m bench.versus COMMIT startup running`.

Each round runs every named benchmark once on the older commit and once on this state, with the same interpreter and
packages. A benchmark prints figures of its own commit; those that both print under the same name and unit are compared.
Where a machine is shared, single figures vary by more than 5 %: the median of the ratios of many rounds is what counts.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).parents[1]
_FIGURE: Final = re.compile(r"^  (?P<name>\S.*?) {2,}(?P<value>[\d,]+(?:\.\d+)?) (?P<unit>\S+)")
# Of any other unit, less is better.
_MORE_IS_BETTER: Final = ("/s",)
# A ratio that a benchmark prints is none of its two times; it depends on what it was measured against.
_NOT_COMPARED: Final = frozenset({"x"})


class Figure(NamedTuple):
    section: str
    name: str
    unit: str


def measured(text: str) -> dict[Figure, float]:
    """The figures that a benchmark printed."""
    figures: dict[Figure, float] = {}
    section = ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            section = line
        elif (found := _FIGURE.match(line)) and found["unit"] not in _NOT_COMPARED:
            figures[Figure(section, found["name"], found["unit"])] = float(found["value"].replace(",", ""))
    return figures


def slowdown(figure: Figure, older: float, newer: float) -> float:
    """How many times worse the newer figure is: 1.05 is 5 % worse."""
    return older / newer if figure.unit.endswith(_MORE_IS_BETTER) else newer / older


def _measure(root: Path, name: str) -> dict[Figure, float]:
    places = os.pathsep.join([str(root / "src"), str(root)])
    done = subprocess.run(
        [sys.executable, "-m", "bench", name, "--no-fail"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": places},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    figures = measured(done.stdout)
    if done.returncode:
        # What was measured before the failure counts: a peer may be out of reach, or a part may not work any more.
        print(f"{name} failed in {root}:\n{done.stdout[-1500:]}", file=sys.stderr)
    return figures


def _print_ratios(ratios: Mapping[Figure, list[float]]) -> None:
    section = ""
    for figure, values in ratios.items():
        if figure.section != section:
            section = figure.section
            print(f"\n{section}")
        spread = f"{min(values):.2f} to {max(values):.2f}" if len(values) > 1 else ""
        print(f"  {figure.name:<44} {statistics.median(values):>6.3f} x   {spread}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.versus", description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="the older commit, for example HEAD~20")
    parser.add_argument("names", nargs="+", metavar="NAME", help="benchmarks, as for `python -m bench`")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    arguments = parser.parse_args()
    ratios: dict[Figure, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="podium-versus-") as folder:
        older = Path(folder) / "older"
        subprocess.run(["git", "clone", "--quiet", "--shared", str(_ROOT), str(older)], check=True)
        subprocess.run(["git", "checkout", "--quiet", arguments.commit], cwd=older, check=True)
        for number in range(arguments.rounds):
            for name in arguments.names:
                print(f"round {number + 1} of {arguments.rounds}: {name}", file=sys.stderr)
                before, after = _measure(older, name), _measure(_ROOT, name)
                for figure in before.keys() & after.keys():
                    ratios.setdefault(figure, []).append(slowdown(figure, before[figure], after[figure]))
    print(f"Time (or lack of speed) of this state / {arguments.commit}, median of {arguments.rounds} rounds")
    _print_ratios(dict(sorted(ratios.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
