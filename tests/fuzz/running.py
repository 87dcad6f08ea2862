"""Many cases, on all cores, each of which can be repeated: a case is its target, the seed and its number."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from random import Random
from types import FrameType
from typing import Final, NamedTuple

from tests.fuzz.targets import TARGETS

# A case takes a fraction of a millisecond; on a machine that others use too, some take longer.
MAX_CASE: Final = 10.0
_CASES_IN_A_PIECE: Final = 500


class Failure(NamedTuple):
    target: str
    seed: int
    number: int
    text: str
    error: str

    def __str__(self) -> str:
        again = f"python -m tests.fuzz --target {self.target} --seed {self.seed} --number {self.number}"
        return f"{self.target}: {self.error}\n  input: {self.text!a}\n  again: {again}"


class Hanging(BaseException):
    """Not an Exception: nothing that is fuzzed may catch it."""


@dataclass
class Outcome:
    cases: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TARGETS, 0))
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.cases.values())


class Piece(NamedTuple):
    """Some cases of one target, with consecutive numbers."""

    target: str
    seed: int
    first: int
    cases: int


def text_of(target: str, seed: int, number: int) -> str:
    return TARGETS[target].make(Random(f"{target}/{seed}/{number}"))


def run_piece(piece: Piece) -> tuple[Piece, list[Failure]]:
    check = TARGETS[piece.target].check
    failures = []
    with _watchdog():
        for number in range(piece.first, piece.first + piece.cases):
            text = text_of(piece.target, piece.seed, number)
            signal.setitimer(signal.ITIMER_REAL, MAX_CASE)
            try:
                check(text)
            except (Exception, Hanging) as error:
                told = f"{type(error).__name__}: {error}"[:500]
                failures.append(Failure(piece.target, piece.seed, number, text, told))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    return piece, failures


def run(
    cases: int, seed: int, seconds: float | None = None, processes: int = 1, only: str | None = None
) -> Outcome:
    """As many cases as asked for, or as fit into the time; stops early once there is enough to look at."""
    outcome = Outcome()
    started = time.monotonic()
    pieces = _pieces(cases, seed, only)
    if processes == 1:
        _collect(map(run_piece, pieces), outcome, started, seconds)
    else:
        # Forked: what a worker needs is already imported.
        with get_context("fork").Pool(processes) as pool:
            _collect(pool.imap_unordered(run_piece, pieces), outcome, started, seconds)
            pool.terminate()
    outcome.seconds = time.monotonic() - started
    return outcome


def _collect(
    finished: Iterator[tuple[Piece, list[Failure]]], outcome: Outcome, started: float, seconds: float | None
) -> None:
    for piece, failures in finished:
        outcome.cases[piece.target] += piece.cases
        outcome.failures += failures
        if len(outcome.failures) >= 20 or (seconds is not None and time.monotonic() - started >= seconds):
            return


def _pieces(cases: int, seed: int, only: str | None) -> Iterator[Piece]:
    """All targets in turn, each with its share, so that a run that is cut short has seen all of them."""
    shares = {name: target.share for name, target in TARGETS.items() if only in (None, name)}
    wanted = {name: -(-cases * share // sum(shares.values())) for name, share in shares.items()}
    rounds = -(-max(wanted.values()) // _CASES_IN_A_PIECE)
    for turn in range(rounds):
        for name, count in wanted.items():
            first, last = count * turn // rounds, count * (turn + 1) // rounds
            if last > first:
                yield Piece(name, seed, first, last - first)


@contextmanager
def _watchdog() -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Hanging(f"took longer than {MAX_CASE} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
