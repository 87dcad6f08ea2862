"""Standard output that cannot be written any more: its reader went away (`| head`), or the disk behind it is full.

What a command does for its run continues. What it would still print goes nowhere.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click

from podium.log.events import EventRecord
from podium.ports.engine import Observer
from podium.text import reason_of

_LOST: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO})


@contextlib.contextmanager
def surviving_lost_output() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _LOST:
            raise
        _give_up(error)


def surviving(observe: Observer) -> Observer:
    def observe_and_survive(records: Sequence[EventRecord]) -> None:
        with surviving_lost_output():
            observe(records)

    return observe_and_survive


def _give_up(error: OSError) -> None:
    """Also what is left in the buffer goes nowhere: it would fail again with everything that is printed."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno != errno.EPIPE:
        with contextlib.suppress(OSError):
            click.echo(
                f"warning: standard output cannot be written ({reason_of(error)}); the run continues without it",
                err=True,
            )
