"""No promise is empty: for each there is a store that breaks it, and is caught.

The store in memory is changed in one place of its text, made anew, and given the promise. Together with the broken
stores next door this covers every promise there is; a new one without a store that fails it fails here.
"""

import sys
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import podium.stores
from podium.model.runs import RunQuery
from podium.testing.clock import VirtualClock
from podium.testing.store_promises import StorePromises
from tests.conformance import promised
from tests.promises.broken import Broken, assert_noticed
from tests.promises.sqlite.test_broken_sqlite_stores import BROKEN as BROKEN_SQLITE
from tests.promises.test_broken_memory_stores import BROKEN, BrokenWorld

STORES = Path(podium.stores.__file__).parent


class Change(NamedTuple):
    """What is changed in the text of the store, and the promise that has to notice."""

    promise: str
    old: str
    new: str
    file: str = "memory.py"
    arguments: dict[str, Any] = {}  # noqa: RUF012  a constant


CHANGES = [
    Change(
        "100_kb_of_hostile_prose_comes_back_byte_for_byte",
        "            write.payload,\n        )\n        for seq",
        '            write.payload.replace(b"\\\\u0000", b""),\n        )\n        for seq',
        "rules.py",
        {"field": "a value in a payload", "text": "NUL"},
    ),
    Change(
        "a_busy_run_does_not_keep_the_others_from_being_delivered",
        "min(free, key=lambda one: one[0])",
        "free[0]",
    ),
    Change(
        "a_claimed_run_that_was_never_started_is_handed_out_again",
        '            and not self._is_live(kept, "")\n            and not self._full_limit',
        "            and not kept.leases\n            and not self._full_limit",
    ),
    Change(
        "a_dead_letter_can_be_dropped_and_a_bus_removed",
        "        self._buses.pop(bus, None)\n",
        "        pass\n",
    ),
    Change(
        "a_dead_letter_is_kept_apart_and_its_line_goes_on",
        "        seq = line.waiting.pop(0)\n",
        "        seq = line.waiting[0]\n",
    ),
    Change(
        "a_delayed_run_waits_for_its_time",
        "    if row.start_at is not None and row.start_at > now:\n        return False\n",
        "",
        "rules.py",
    ),
    Change(
        "a_failure_holds_its_line_for_a_while_and_no_other",
        "            line.not_before = self._clock.elapsed() + retry_in.total_seconds()\n",
        "",
    ),
    Change(
        "a_lapsed_lease_cannot_be_renewed_for_its_slot_may_be_taken",
        "        if kept is None or not self._is_live(kept, lease.fence.attempt):\n            return None\n",
        "",
    ),
    Change("a_lease_has_one_holder", "        if self._is_live(kept, attempt) or (", "        if ("),
    Change(
        "a_record_says_everything_its_write_said",
        "            write.engine_attempt_id,\n",
        "            1,\n",
        "rules.py",
    ),
    Change(
        "a_relay_that_lost_its_claim_changes_nothing",
        "line is not None and line.generation == claim.generation else None",
        "line is not None else None",
    ),
    Change(
        "a_released_lease_is_free_and_its_holder_fenced_off",
        "        if held is not None and held.generation == lease.fence.generation:\n",
        "        if held is not None:\n",
    ),
    Change(
        "a_removed_run_is_not_run_again_by_a_repeated_request",
        "        self._pruned[_admitted(kept.row)] = run_id\n",
        "",
    ),
    Change(
        "a_renewed_lease_does_not_lapse",
        "        held.expires = self._clock.elapsed() + ttl.total_seconds()\n        return replace",
        "        return replace",
    ),
    Change(
        "a_repeated_event_that_says_something_else_changes_nothing_and_is_told",
        "AppendedEvent(earlier, duplicate=True, differs=_differs(write, earlier))",
        "AppendedEvent(earlier, duplicate=True, differs=False)",
        "rules.py",
    ),
    Change("a_run_id_belongs_to_one_run", " or run_id in self._runs or ", " or "),
    Change("a_run_is_found_by_the_ids_of_its_engine", "if kept.row.engine == engine)", "if kept.row.engine)"),
    Change(
        "a_run_that_does_not_exist_is_not_found",
        "            raise RunNotFound(run_id)\n        return kept\n",
        "            raise KeyError(run_id)\n        return kept\n",
    ),
    Change(
        "a_run_that_needs_approval_waits_for_it", "needs_approval=kept.needs_approval", "needs_approval=False"
    ),
    Change(
        "a_sound_store_has_no_problems_and_counts_what_it_keeps",
        "open_runs=sum(kept.row.status not in TERMINAL for kept in self._runs.values())",
        "open_runs=len(self._runs)",
    ),
    Change(
        "a_thousand_repetitions_change_nothing",
        "        kept.by_key.update({record.idempotency_key: record for record in stored})\n",
        "",
    ),
    Change(
        "a_watcher_sees_everything_once_and_in_order",
        "                after = records[-1].run_seq\n",
        "                after += 1\n",
    ),
    Change("an_id_that_is_none_is_refused", "        check_new_run(new)\n", "", arguments={"bad": "a b"}),
    Change(
        "any_text_in_a_payload_comes_back_byte_for_byte",
        "            write.payload,\n        )\n        for seq",
        '            write.payload.replace(b"\\\\u0000", b""),\n        )\n        for seq',
        "rules.py",
        {"text": "\0" * 10},
    ),
    Change(
        "events_get_rising_numbers_in_the_order_of_the_append",
        "enumerate(fresh, start=head + 1)",
        "enumerate(reversed(fresh), start=head + 1)",
        "rules.py",
    ),
    Change(
        "many_reconcilers_never_start_a_run_twice",
        '            and not self._is_live(kept, "")\n            and not self._full_limit',
        '            and (not self._is_live(kept, "") or kept.leases[""].generation < 2)\n'
        "            and not self._full_limit",
    ),
    Change(
        "no_name_has_100_kb_of_hostile_text",
        "        texts.check_limit(limit)\n",
        "",
        arguments={"field": "name of a limit"},
    ),
    Change(
        "nothing_is_found_by_a_name_of_hostile_text",
        "        last = texts.cursor_of(query)\n",
        "        last = int(query.cursor) if query.cursor is not None else None\n",
        arguments={"question": "cursor of a page"},
    ),
    Change(
        "of_a_batch_only_what_is_new_is_stored",
        "            fresh.setdefault(write.idempotency_key, write)\n",
        "            fresh[write.event_id + str(len(fresh))] = write\n",
        "rules.py",
    ),
    Change(
        "reading_goes_on_where_it_stopped",
        "        return log[start : start + limit]\n",
        "        return log[start:]\n",
    ),
    Change(
        "runs_are_filtered",
        "        query.project_id in (None, run.project_id)\n",
        "        True\n",
        "rules.py",
        {"query": RunQuery(project_id="nowhere"), "found": []},
    ),
    Change(
        "runs_are_listed_newest_first_page_by_page",
        "key=lambda kept: -kept.number",
        "key=lambda kept: kept.number",
    ),
    Change(
        "runs_start_in_order_of_priority_then_age_each_once",
        "-kept.row.priority, kept.number",
        "kept.number, 0",
    ),
    Change(
        "the_lease_of_an_attempt_is_for_the_events_of_that_attempt",
        "        if not may_write(write.event_type, write.step_id, write.logical_attempt_id, fence):\n",
        "        if fence is None:\n",
        "rules.py",
    ),
    Change(
        "the_same_request_for_something_else_is_refused",
        "            rules.check_same_request(new, earlier.row.plan_sha256, earlier.row.inputs_sha256)\n",
        "",
        arguments={"other": {"inputs_sha256": "b"}},
    ),
    Change(
        "the_same_request_gives_the_same_run_and_stores_nothing",
        "        if earlier is not None:\n            rules.check",
        "        if False:\n            rules.check",
    ),
    Change(
        "the_slot_of_a_dead_holder_is_free_and_recovery_needs_one",
        '            if started and not self._is_live(kept, "") and not self._full_limit(',
        '            if started and not self._is_live(kept, "") or self._full_limit(',
    ),
    Change(
        "types_nobody_knows_are_kept",
        "        kept.log += stored\n",
        '        kept.log += [r for r in stored if r.event_type[:3] in ("Run", "Ste")]\n',
    ),
    Change(
        "wake_ups_are_due_in_order_and_gone_when_dropped",
        "            kept.wake_ups.pop(key, None)\n",
        "            pass\n",
    ),
    Change(
        "what_a_broker_says_is_kept_for_people_whatever_it_is",
        "        error = texts.readable(error)\n",
        "",
        arguments={"text": "NUL"},
    ),
    Change(
        "without_a_bus_nothing_waits",
        "        self._buses: dict[str, dict[str, _Line]] = {}\n",
        '        self._buses: dict[str, dict[str, _Line]] = {"kafka": {}}\n',
    ),
    Change(
        "without_a_lease_only_what_others_decided_can_be_recorded",
        "        if not may_write(write.event_type, write.step_id, write.logical_attempt_id, fence):\n",
        '        if fence is not None and not may_write("", write.step_id, write.logical_attempt_id, fence):\n',
        "rules.py",
    ),
]

# About values, not about stores: they need no store to fail.
WITHOUT_A_STORE = {"half_a_character_cannot_be_written"}


def broken_store(change: Change) -> Any:
    """The class of the store in memory, with one place of its text changed."""
    texts = {name: (STORES / name).read_text() for name in ("rules.py", "memory.py")}
    count = texts[change.file].count(change.old)
    assert count == 1, f"adapt the change: {change.old!r} stands {count} times in {change.file}"
    texts[change.file] = texts[change.file].replace(change.old, change.new)
    modules = {}
    for name, text in texts.items():
        module = ModuleType(f"broken_{name[:-3]}")
        # Where dataclasses look up the annotations of their fields.
        sys.modules[module.__name__] = module
        exec(compile(text, name, "exec"), module.__dict__)
        modules[name] = module
    modules["memory.py"].__dict__["rules"] = modules["rules.py"]
    return modules["memory.py"].__dict__["MemoryStore"]


def world_of(store: Any) -> BrokenWorld:
    clock = VirtualClock()
    return BrokenWorld(store(clock), clock)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.promise)
def test_a_store_that_breaks_the_promise_is_caught(change: Change) -> None:
    promise = getattr(StorePromises, f"test_{change.promise}")
    assert_noticed(
        Broken(f"breaks it: {change.new!r}", promise, arguments=change.arguments),
        world_of(broken_store(change)),
    )


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.promise)
def test_the_store_as_it_is_keeps_the_promise_in_the_same_world(change: Change) -> None:
    promise = getattr(StorePromises, f"test_{change.promise}")
    assert set(signature(promise).parameters) == {"self", "world", *change.arguments}
    unchanged = change._replace(new=change.old)
    promise(None, world_of(broken_store(unchanged)), **change.arguments)


def test_every_promise_has_a_store_that_breaks_it() -> None:
    caught = {change.promise for change in CHANGES}
    caught |= {broken.promise.__name__.removeprefix("test_") for broken in [*BROKEN, *BROKEN_SQLITE]}
    assert promised() - caught - WITHOUT_A_STORE == set()
