"""`python -m tests.planted`: plants all faults, or those of some rules, and tells which were not noticed."""

import argparse
import compileall
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from os import cpu_count
from pathlib import Path
from time import monotonic

from tests.conformance import later, rows
from tests.planted.cannot import CANNOT
from tests.planted.describing import describe
from tests.planted.edits import SOURCE, CannotPlant
from tests.planted.faults import Fault
from tests.planted.registry import FAULTS, GROUPS, by_rule, day, missing, sample
from tests.planted.results import Results
from tests.planted.running import ROOT, Outcome, try_fault


def main() -> int:
    options = _options()
    if options.describe:
        return _describe()
    if options.missing:
        return _print_missing()
    chosen = _chosen(options)
    if options.list:
        print("\n".join(fault.title for fault in chosen))
        return 0
    if options.check:
        return _check(chosen)
    # Copies link what is compiled: it takes two seconds for each fault otherwise.
    compileall.compile_dir(SOURCE, quiet=1)
    results = Results(options.results)
    unnoticed = _try_all(
        [fault for fault in chosen if fault.title not in results.noticed], options.workers, results
    )
    _print_figures(unnoticed, chosen)
    return 1 if unnoticed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("--rule", action="append", default=[], help="only faults of this row; repeatable")
    parser.add_argument("--group", choices=sorted(GROUPS), help="only faults of this file of tests/planted")
    parser.add_argument("--sample", action="store_true", help="only the faults whose turn it is today")
    parser.add_argument("--workers", type=int, default=cpu_count() or 2)
    parser.add_argument("--list", action="store_true", help="list the faults and try none")
    parser.add_argument("--check", action="store_true", help="only check that each fault can be planted")
    parser.add_argument("--missing", action="store_true", help="list the rows without a fault or a reason")
    parser.add_argument(
        "--results",
        type=Path,
        help="write each outcome to this file; faults that it says were noticed are not tried",
    )
    parser.add_argument(
        "--describe", action="store_true", help="print the edit for the change in `git diff src`"
    )
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> list[Fault]:
    chosen = GROUPS[options.group] if options.group else sample(day()) if options.sample else FAULTS
    return [fault for fault in chosen if not options.rule or fault.rule in options.rule]


def _check(chosen: list[Fault]) -> int:
    problems = 0
    for fault in chosen:
        try:
            fault.changed_files()
        except CannotPlant as error:
            problems += 1
            print(f"{fault.title}\n    {error}")
    print(f"{len(chosen) - problems} of {len(chosen)} faults can be planted")
    return 1 if problems else 0


def _try_all(chosen: list[Fault], workers: int, results: Results) -> list[Fault]:
    def attempt(fault: Fault) -> tuple[Fault, Outcome, float]:
        started = monotonic()
        return fault, try_fault(fault), monotonic() - started

    unnoticed = []
    with ThreadPoolExecutor(workers) as pool:
        for done in as_completed([pool.submit(attempt, fault) for fault in chosen]):
            fault, outcome, seconds = done.result()
            word = "noticed " if outcome.noticed else "SURVIVED"
            print(f"{word} {seconds:5.1f} s  {fault.title}\n    {outcome.why[:200]}", flush=True)
            results.add(fault, outcome)
            if not outcome.noticed:
                unnoticed.append(fault)
    print(f"\n{len(chosen) - len(unnoticed)} of {len(chosen)} faults were noticed")
    for fault in unnoticed:
        print(f"SURVIVED {fault.title}")
    return unnoticed


def _print_figures(unnoticed: list[Fault], chosen: list[Fault]) -> None:
    """Per table: its rows, those with a fault, those whose every fault was noticed."""
    every, planted, waiting = rows(), by_rule(), later()
    tried = {fault.rule for fault in chosen}
    bad = {fault.rule for fault in unnoticed}
    print(f"\n{'table':<22}{'rows':>6}{'planted':>9}{'noticed':>9}{'cannot':>8}{'later':>7}{'missing':>9}")
    for page, count in Counter(path.stem for path in every.values()).items():
        ids = {rule for rule, path in every.items() if path.stem == page}
        absent = missing(ids) - waiting
        figures = (
            f"{count:>6}{len(ids & set(planted)):>9}{len(ids & tried - bad):>9}{len(ids & set(CANNOT)):>8}"
            f"{len(ids & waiting):>7}{len(absent):>9}"
        )
        print(f"{page:<22}{figures}")


def _print_missing() -> int:
    absent = missing(set(rows())) - later()
    for rule, path in rows().items():
        if rule in absent:
            print(f"{path.stem}  {rule}")
    print(f"{len(absent)} rows have neither a fault nor a reason")
    return 1 if absent else 0


def _describe() -> int:
    changed = subprocess.run(
        ["git", "diff", "--name-only", "--", "src"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    for name in changed:
        old = subprocess.run(
            ["git", "show", f"HEAD:{name}"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        file = str((ROOT / name).relative_to(SOURCE))
        for edit in describe(file, old.stdout, (ROOT / name).read_text()):
            print(f"{edit},")
    return 0


if __name__ == "__main__":
    sys.exit(main())
