"""`python -m tests.fuzz [--cases N] [--seconds S] [--seed S]`: look for inputs that break what reads them.

The same seed makes the same cases. Exits with 1 if one of them failed, and says how to repeat it.
"""

import argparse
import os
import sys

from tests.fuzz.running import Piece, run, run_piece, text_of
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz what reads files.")
    parser.add_argument("--cases", type=int, default=1_000_000, help="how many, over all targets (1,000,000)")
    parser.add_argument("--seconds", type=float, help="stop after this time even if there are cases left")
    parser.add_argument("--seed", type=int, default=1, help="which cases (1)")
    parser.add_argument("--target", choices=list(TARGETS), help="only this one")
    parser.add_argument("--number", type=int, help="only this case of the target; shows its input")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()

    if arguments.number is not None:
        if arguments.target is None:
            parser.error("--number needs --target")
        print(ascii(text_of(arguments.target, arguments.seed, arguments.number)))
        _, failures = run_piece(Piece(arguments.target, arguments.seed, arguments.number, 1))
    else:
        outcome = run(
            arguments.cases, arguments.seed, arguments.seconds, arguments.processes, arguments.target
        )
        failures = outcome.failures
        rate = outcome.total / outcome.seconds
        each = ", ".join(f"{count:,} {name}" for name, count in outcome.cases.items())
        print(
            f"{outcome.total:,} cases in {outcome.seconds:.0f} s, {rate:,.0f} a second, seed {arguments.seed}: {each}"
        )
    for failure in failures:
        print(f"\n{failure}")
    print("\nNo case failed." if not failures else f"\n{len(failures)} failed.")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
