"""Runs on Conductor that wait are woken: no answer is lost, and none waits for a callback.

`python -m tests.torture.engine_signals --engine conductor` sends a thousand answers.
"""

import asyncio

import pytest

from tests.conductor.site import Site
from tests.torture.engine_signals import answer_often


@pytest.mark.rule("G42", "CN07")
def test_no_answer_is_lost_although_nudges_are(site: Site) -> None:
    """One worker loses every nudge, and the other one every tenth; both give runs back all the time."""
    assert asyncio.run(answer_often(site, 60)) == []
