"""Faults planted in a copy of the machine: the tests of `tests/unit/machine` have to notice each of them.

`python -m tests.torture.faults` tries all of them and names those that nobody noticed. When the source changes and a
fault cannot be planted any more, that is an error: adapt it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
_MACHINE: Final = "core/machine/"


class Fault(NamedTuple):
    what: str
    file: str
    # What stands in the file exactly once.
    old: str
    new: str


FAULTS: Final = [
    Fault(
        "what is parked moves while held",
        "machine.py",
        "while not self.hold.reasons and (self.agenda or budgets.call_next(self)):",
        "while self.agenda or (not self.hold.reasons and budgets.call_next(self)):",
    ),
    Fault(
        "a limit runs on while held",
        "holds.py",
        "    if m.hold.reasons:\n        m.hold.aside",
        "    if False:\n        m.hold.aside",
    ),
    Fault(
        "held time is not given back", "holds.py", "    if m.hold.total > visit.limit_held:", "    if False:"
    ),
    Fault(
        "limits set aside are lost at resume",
        "holds.py",
        "        _give_back(m, visit)\n\n\n# --- limits",
        "        pass\n\n\n# --- limits",
    ),
    Fault(
        "what is set aside does not count",
        "budgets.py",
        "purse.spent.usd + purse.reserved.usd, purse.spent.tokens + purse.reserved.tokens",
        "purse.spent.usd, purse.spent.tokens",
    ),
    Fault(
        "what is set aside is never given back",
        "budgets.py",
        "                purse.give_back(amount, visit.path)\n",
        "                pass\n",
    ),
    Fault(
        "the budget applies in finally",
        "budgets.py",
        "if not any(purse.is_limited() for purse in purses) or _is_outside(visit):",
        "if not any(purse.is_limited() for purse in purses):",
    ),
    Fault("the soft limit is told again and again", "budgets.py", "        self.warned = True\n", ""),
    Fault(
        "a step's own budget is not what is set aside",
        "budgets.py",
        "            if own is not None and own_usd is not None:\n",
        "            if False:\n",
    ),
    Fault(
        "the reserve is not set aside",
        "budgets.py",
        "            elif reserve is not None:\n",
        "            elif False:\n",
    ),
    Fault(
        "the outermost reserve counts",
        "budgets.py",
        "for purse in purses if purse.budget is not None)\n            reserve",
        "for purse in reversed(purses) if purse.budget is not None)\n            reserve",
    ),
    Fault(
        "an unknown cost is none",
        "budgets.py",
        "                usd = known.usd if known is not None else None\n",
        "                usd = known.usd if known is not None else 0\n",
    ),
    Fault(
        "the first of a provider does not wait for others",
        "budgets.py",
        "purse.alone is not None or (alone and purse.under_way) or _cannot_pay",
        "purse.alone is not None or _cannot_pay",
    ),
    Fault(
        "others begin beside the first of a provider",
        "budgets.py",
        "purse.alone is not None or (alone and",
        "(alone and",
    ),
    Fault(
        "the newest cost counts, not the highest",
        "budgets.py",
        "Amount(max(known.usd, cost.usd), max(known.tokens, cost.tokens))",
        "cost",
    ),
    Fault(
        "the newcomer passes the line",
        "budgets.py",
        "    if line and next(iter(line)) != visit.path:\n",
        "    if False:\n",
    ),
    Fault(
        "who leaves the line lets nobody try",
        "budgets.py",
        "        if self.line and self.line.pop(visit.path, None) is not None:\n            self.moved = True\n",
        "        self.line.pop(visit.path, None)\n",
    ),
    Fault(
        "an end lets nobody in line try",
        "budgets.py",
        "                purse.give_back(amount, visit.path)\n            self.moved = True\n",
        "                purse.give_back(amount, visit.path)\n",
    ),
    Fault(
        "only one in line is let through",
        "budgets.py",
        "            if line.pop(visit.path, None) is not None:\n                spending.moved = True\n",
        "            line.pop(visit.path, None)\n",
    ),
    Fault(
        "waiting for others holds the run",
        "budgets.py",
        "        case _Answer.LATER:\n            _stand_in_line(m, visit)\n",
        '        case _Answer.LATER:\n            _stand_in_line(m, visit)\n            holds.hold(m, "budget", {})\n',
    ),
    Fault(
        "who can never be paid waits quietly",
        "budgets.py",
        '            holds.hold(m, "budget", _shortage(m, visit, body))\n',
        "",
    ),
    Fault(
        "a resumed run does not ask who could not be paid",
        "holds.py",
        "    m.spending.moved = True\n",
        "",
    ),
    Fault(
        "only the run is charged",
        "budgets.py",
        "for purse in spending.around(visit) if purse.charge(cost)]",
        'for purse in [spending.purses[""]] if purse.charge(cost)]',
    ),
    Fault(
        "a budget of a step is never closed",
        "attempts.py",
        "    m.spending.close(visit)\n    _gone(visit)\n    if scope",
        "    _gone(visit)\n    if scope",
    ),
    Fault(
        "a reopened run counts a step's cost anew",
        "attempts.py",
        "    if m.at_verdict is None:\n        # Else",
        "    if True:\n        # Else",
    ),
    Fault(
        "a failed attempt costs nothing",
        "attempts.py",
        "    budgets.charge(m, visit, payload)\n    if visit.stopping:\n        stopped(m, visit)\n",
        "    m.spending.release(visit)\n    if visit.stopping:\n        stopped(m, visit)\n",
    ),
    Fault(
        "the line is not saved",
        "checkpoint.py",
        '    m.spending.line.update((path, found[path]) for path in saved["line"])\n',
        "",
    ),
    Fault(
        "who runs alone is not saved",
        "checkpoint.py",
        "purse.under_way, purse.alone, purse.warned = under_way, alone, warned",
        "purse.under_way, purse.warned = under_way, warned",
    ),
    Fault("a pause has no number", "holds.py", "    m.pause_cycle += 1\n", ""),
    Fault("a stopped call does not clean up", "stopping.py", 'force=code == "FORCED")', "force=True)"),
    Fault(
        "a dropped try is not told",
        "stopping.py",
        "if visit.tries > 1 and visit.phase in",
        "if False and visit.phase in",
    ),
    Fault(
        "a task that was never handed out is cancelled",
        "stopping.py",
        "case Phase.RUN if visit.handed:",
        "case Phase.RUN:",
    ),
    Fault(
        "a retry in a graph forgets a failed parent",
        "graphs.py",
        "            graph.failed[dependent] -= 1\n",
        "            graph.failed[dependent] = 0\n",
    ),
    Fault(
        "held-back steps stay held back",
        "graphs.py",
        "    if not graph.stop_failures:\n        held_back, graph",
        "    if False:\n        held_back, graph",
    ),
    Fault(
        "a stopping failure lets others begin",
        "graphs.py",
        "    elif graph.stop_failures:\n",
        "    elif False:\n",
    ),
    Fault(
        "dependants are left out too early",
        "graphs.py",
        "            if graph.unmet[dependent] == 0:\n",
        "            if graph.unmet[dependent] == 0 or (how == BAD and graph.states[dependent] == WAITING):\n",
    ),
    Fault(
        "a retry is taken in a graph that is being stopped",
        "graphs.py",
        " or scope.verdict is not None or scope.stopping:",
        ":",
    ),
    Fault(
        "each visit is attempt 1",
        "attempts.py",
        "    attempt = scope.attempts.get(node.index, 0) + 1\n    scope.attempts",
        "    attempt = 1\n    scope.attempts",
    ),
    Fault(
        "a stopped task closes its list while held",
        "attempts.py",
        "    visit.phase = Phase.SETTLED\n    visit.wait = None\n    m.later(leave, visit)\n\n\ndef leave",
        "    drop(m, visit)\n\n\ndef leave",
    ),
    Fault(
        "a doubtful task is retried under the same attempt",
        "attempts.py",
        '        case "retry":\n            next_attempt(visit)\n',
        '        case "retry":\n',
    ),
    Fault("a rejection's target outlives its attempt", "attempts.py", "    visit.goto = None\n", ""),
    Fault(
        "a failure that may not be retried is retried",
        "attempts.py",
        '    if error.get("retryable") is False:\n        return False\n',
        "",
    ),
    Fault("the operator has no window", "attempts.py", "    elif retry.operator:\n", "    elif False:\n"),
    Fault("backoff grows too fast", "attempts.py", "2 ** min(tries - 1, 60)", "2 ** min(tries, 60)"),
    Fault(
        "further tries are not marked",
        "tree.py",
        'return visit.path if visit.attempt == 1 else f"{visit.path}#{visit.attempt}"',
        "return visit.path",
    ),
    Fault("half is a majority", "joins.py", "if 2 * completed > total:", "if 2 * completed >= total:"),
    Fault("all fails fast", "joins.py", "if failed and join.fail_fast:", "if failed:"),
    Fault(
        "what is dead counts for the breather",
        "machine.py",
        "                continue  # it was",
        "                operations += 1\n                continue  # it was",
    ),
    Fault(
        "any event ends the breather",
        "machine.py",
        "        if self.breathing is not None:\n            return\n        operations",
        "        operations",
    ),
    Fault(
        "time runs back",
        "machine.py",
        "        if event.emitted_at > self.surroundings.now:\n",
        "        if True:\n",
    ),
    Fault(
        "a fired timer does not move time",
        "machine.py",
        "    if due is not None and due > m.now:\n",
        "    if False:\n",
    ),
    Fault(
        "keys of timers are used again",
        "machine.py",
        "        visit.counter += 1\n",
        "        visit.counter = 1\n",
    ),
    Fault(
        "the end overtakes other records",
        "machine.py",
        "        self.records.append(decision)\n",
        "        self.records.appendleft(decision)\n",
    ),
    Fault(
        "a completed run is reopened",
        "machine.py",
        "if m.terminal and (m.at_verdict is not None or m.cancelled_before_start):",
        "if m.terminal:",
    ),
    Fault(
        "a signal finds a step by its last name",
        "machine.py",
        "            index = scope.block.index.get(rest)",
        '            index = scope.block.index.get(path.split("/")[-1])',
    ),
    Fault(
        "a folded event is folded again",
        "machine.py",
        "        if event.run_seq <= self.last_seq:\n            return []\n",
        "",
    ),
    Fault(
        "a finished run moves",
        "machine.py",
        "if handler is None or (self.terminal and event.event_type != EventType.RUN_REOPENED):",
        "if handler is None:",
    ),
    Fault(
        "a restored task was never handed out",
        "checkpoint.py",
        "visit.started, visit.handed, visit.stopping, visit.stop_code = flags",
        "visit.started, _, visit.stopping, visit.stop_code = flags",
    ),
    Fault(
        "limits set aside are not saved",
        "checkpoint.py",
        '    m.hold.aside.extend(found[path] for path in saved["aside"])\n',
        "",
    ),
    Fault("gotos are not saved", "checkpoint.py", "    scope.gotos = gotos\n", ""),
    Fault(
        "a reopened run repeats what had ended",
        "checkpoint.py",
        "        case Phase.SETTLED:\n            m.later(attempts.leave, visit)\n",
        "",
    ),
    Fault("a reopened run counts its timers from 1", "checkpoint.py", "    root.attempt = m.opening\n", ""),
    Fault(
        "a break lets further items begin",
        "loops.py",
        '        loop.stopped = True\n        loop.exit_reason = "break"\n',
        '        loop.exit_reason = "break"\n',
    ),
    Fault(
        "a loop that is stopped goes on",
        "loops.py",
        "    return visit.phase is Phase.OPEN and not visit.stopping and visit.verdict is None\n",
        "    return True\n",
    ),
    Fault(
        "the first pass waits for the interval",
        "loops.py",
        "    elif loop.index and body.check_interval:\n",
        "    elif body.check_interval:\n",
    ),
    Fault("the last item is whoever ended last", "loops.py", " and scope.index >= loop.last_index:\n", ":\n"),
    Fault(
        "a pass with a failure is a success",
        "loops.py",
        '    status = "failed" if scope.failed_unhandled and _status_of(scope) == "completed" else _status_of(scope)\n',
        "    status = _status_of(scope)\n",
    ),
    Fault("rest: wait is not waited for", "loops.py", '    if join.rest == "cancel":\n', "    if True:\n"),
    Fault(
        "a cancel during finally hides a failure",
        "calls.py",
        '    if call.verdict is not None and call.verdict.status == "completed":\n        call.verdict = verdict\n',
        "    if call.verdict is not None:\n        call.verdict = verdict\n",
    ),
    Fault(
        "the run's limit reaches into finally",
        "calls.py",
        "    holds.disarm(m, visit)\n    error = call",
        "    error = call",
    ),
    Fault(
        "a failing finally changes every code",
        "calls.py",
        'if call.verdict is not None and call.verdict.status == "completed":\n        call.verdict = Verdict("failed"',
        'if call.verdict is not None:\n        call.verdict = Verdict("failed"',
    ),
    Fault(
        "attempts of finally are used again after reopening",
        "calls.py",
        "        call.spent[scope.index] = scope.attempts\n",
        "        pass\n",
    ),
    Fault(
        "an allowed failure skips its item",
        "routing.py",
        "follow(m, scope, way, None if passed else outcome)",
        "follow(m, scope, way, outcome)",
    ),
    Fault(
        "gotos are counted too late",
        "routing.py",
        "scope.gotos > workflow_of(scope)",
        "scope.gotos > 1 + workflow_of(scope)",
    ),
    Fault(
        "a signal is answered behind the end", "signals.py", "    if calls.is_over(m):\n        return\n", ""
    ),
    Fault(
        "a skip is not noted", "signals.py", "        scope.skips = (scope.skips or set()) | {index}\n", ""
    ),
    Fault(
        "a running step is skipped",
        "signals.py",
        "case Phase.NEW | Phase.READY | Phase.UNPAID | Phase.PROBE | Phase.BACKOFF:",
        "case Phase.NEW | Phase.READY | Phase.UNPAID | Phase.PROBE | Phase.BACKOFF | Phase.RUN:",
    ),
    Fault(
        "a question is asked though it does not matter",
        "conditions.py",
        "            if answer is False:\n                return False\n",
        "            if answer is False and not unknown:\n                return False\n",
    ),
    Fault(
        "whole results are no plain data",
        "values.py",
        "{step: as_value(one) for step, one in value.items()}",
        "value",
    ),
    Fault(
        "the inner loop hides its parent",
        "values.py",
        "            scope = _loop_around(outer) if outer is not None else None\n",
        "            scope = _loop_around(self._scope)\n",
    ),
    Fault(
        "a budget written into the file does not hold for what is open",
        "budgets.py",
        "            if plan_path(purse.path) == path:\n                purse.change(budget)",
        "            if False:\n                purse.change(budget)",
    ),
    Fault(
        "a budget written into the file does not hold for later visits",
        "budgets.py",
        "            budget = self.written.get(plan_path(path), budget)",
        "            pass",
    ),
    Fault(
        "a checkpoint forgets the budgets written into the file",
        "checkpoint.py",
        "    spending.written = {path: _read_budget(budget) for path, budget in written}",
        "    spending.written = {}",
    ),
]


def is_noticed(fault: Fault, folder: Path) -> tuple[bool, str]:
    """Whether a test fails with the fault in place, and what was told last."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    planted = folder / "src" / "podium" / _MACHINE / fault.file
    text = planted.read_text()
    if text.count(fault.old) != 1:
        raise AssertionError(f"adapt the fault: {fault.old!r} is not there exactly once")
    planted.write_text(text.replace(fault.old, fault.new))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-p",
        "no:xdist",
    ]
    found = subprocess.run(
        [*command, "--timeout", "60", "tests/unit/machine"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = found.stdout.strip().splitlines()
    # 1 is "tests ran and some failed"; an error in collecting them would prove nothing.
    failed = found.returncode == 1 and "failed" in lines[-1] and "error" not in lines[-1]
    told = next(
        (line for line in lines if line.startswith("FAILED")), lines[-1] if lines else found.stderr[-300:]
    )
    return failed, told


def _try(fault: Fault) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory(prefix="podium-fault-") as folder:
        return is_noticed(fault, Path(folder))


def main() -> int:
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(_try, FAULTS))
    survivors = [fault for fault, (noticed, _) in zip(FAULTS, results, strict=True) if not noticed]
    for fault, (noticed, told) in zip(FAULTS, results, strict=True):
        print(f"{'noticed ' if noticed else 'SURVIVED'}  {fault.what}: {told[:150]}")
    print(f"\n{len(FAULTS) - len(survivors)} of {len(FAULTS)} faults were noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
