"""`python -m bench`: measure everything; `python -m bench NAME`: one of the benchmarks.

Exits with 1 if a goal that decides was missed, naming it, unless `--no-fail` is given.
"""

import argparse
import sys
from importlib import import_module

from bench.report import Report

# Imported when they run: not every machine has what each of them needs.
_BENCHMARKS = (
    "ordering",
    "executor",
    "startup",
    "reading",
    "language",
    "store_sqlite",
    "projecting",
    "following",
    "store_postgres",
    "expressions",
    "machine",
    "running",
    "scale",
    "resuming",
    "agents",
    "temporal",
    "conductor",
    "conductor_waiting",
    "kafka",
    "hosting",
    "registration",
    "server_lists",
    "server",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Podium.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(_BENCHMARKS)}; default all"
    )
    parser.add_argument("--no-fail", action="store_true", help="exit with 0 even if a goal was missed")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in _BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}: use one of {', '.join(_BENCHMARKS)}")

    report = Report()
    report.machine()
    for name in arguments.names or _BENCHMARKS:
        import_module(f"bench.{name}").run(report)

    print()
    for missed in report.missed:
        print(f"MISSED  {missed}")
    if not report.missed:
        print("Every goal that decides was met.")
    return 1 if report.missed and not arguments.no_fail else 0


sys.exit(main())
