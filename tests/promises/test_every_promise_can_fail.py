"""No promise is empty: for each there is a store that breaks it, and is caught.

The store in memory is changed in one place of its source, made anew, and given the promise. Together with the broken
stores next door this covers every promise there is; a new one without a store that fails it fails here.
"""

import sys
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest

import podium.stores
from podium.errors import InvalidEvent
from podium.log.runs import RunQuery
from podium.testing.clock import VirtualClock
from podium.testing.store_promises import StorePromises
from podium.testing.store_promises.reading import ENGINES
from tests.conformance import promised
from tests.planted.edits import Edit, drop, swap
from tests.promises.broken import Broken, assert_noticed
from tests.promises.sqlite.test_broken_sqlite_stores import BROKEN as BROKEN_SQLITE
from tests.promises.test_broken_memory_stores import BROKEN, BrokenWorld

STORES = Path(podium.stores.__file__).parent


class Change(NamedTuple):
    """How the source of the store is changed, and the promise that has to notice."""

    promise: str
    edit: Edit
    arguments: dict[str, Any] = {}  # noqa: RUF012  a constant


CHANGES = [
    Change(
        "a_decision_is_recorded_with_its_events",
        drop("stores/memory.py:MemoryStore.create_run", "self._record_audit(audit)"),
    ),
    Change(
        "a_refused_append_records_no_decision",
        swap(
            "stores/memory.py:MemoryStore.append",
            "not fresh and (writes or not (set_wake_ups or drop_wake_ups or audit))",
            "self._record_audit(audit) or not fresh and (writes or not (set_wake_ups or drop_wake_ups))",
        ),
    ),
    Change(
        "repeated_events_are_not_decided_again",
        swap(
            "stores/memory.py:MemoryStore.append",
            "not fresh and (writes or not (set_wake_ups or drop_wake_ups or audit))",
            "not fresh and not (set_wake_ups or drop_wake_ups or audit)",
        ),
    ),
    Change(
        "a_repeated_request_is_not_decided_again",
        swap(
            "stores/memory.py:MemoryStore.create_run",
            "earlier is not None",
            "earlier and not self._record_audit(audit)",
        ),
    ),
    Change(
        "decisions_without_events_are_recorded_alone_or_with_a_run",
        drop("stores/memory.py:MemoryStore.append", "self._record_audit(audit)"),
    ),
    Change(
        "each_tenant_has_a_chain_of_its_own",
        swap(
            "stores/memory.py:MemoryStore._record_audit",
            "self._audit_heads.get(tenant_id)",
            "max(self._audit_heads.values(), key=lambda head: head.seq, default=None)",
        ),
    ),
    Change(
        "each_record_is_sealed_with_the_key_of_its_time",
        swap("stores/memory.py:MemoryStore.audit_head", "tenant_id", "min(self._audit_heads) + '?'"),
    ),
    Change(
        "audit_records_are_read_in_pages",
        swap("stores/memory.py:MemoryStore.read_audit", "found[:limit]", "found"),
    ),
    Change(
        "decisions_at_the_same_time_make_one_chain",
        swap("stores/memory.py:MemoryStore._record_audit", "chain += records", "chain[:] = records"),
    ),
    Change(
        "audit_records_outlive_their_run",
        swap("stores/memory.py:MemoryStore.prune", "self._remove_unused_contents()", "self._audit.clear()"),
    ),
    Change(
        "an_entry_that_cannot_be_sealed_changes_nothing",
        drop("stores/memory.py:MemoryStore.append", "texts.check_audit(audit)"),
        arguments={"fields": {"reason": "x" * 70_000}, "error": InvalidEvent},
    ),
    Change(
        "the_owner_of_a_lease_gets_it_again_with_its_generation",
        swap(
            "stores/memory.py:MemoryStore.claim",
            "await self.renew(held, ttl=ttl)",
            "None",
        ),
        arguments={"attempt": ""},
    ),
    Change(
        "a_store_has_an_id_that_every_process_sees_and_that_never_changes",
        swap("stores/memory.py:MemoryStore.store_id", "self._id", "uuid4().hex"),
    ),
    Change(
        "a_live_lease_is_taken_over_from_the_owner_that_is_named",
        swap("stores/memory.py:MemoryStore._take", "held.generation += 1", "held.generation = 1"),
        arguments={"attempt": ""},
    ),
    Change(
        "a_lease_is_not_taken_over_from_anybody_else",
        swap("stores/memory.py:MemoryStore.claim", "held.owner == takes_over", "takes_over is not None"),
    ),
    Change(
        "of_many_that_take_over_at_the_same_time_one_succeeds",
        swap("stores/memory.py:MemoryStore.claim", "held.owner == takes_over", "takes_over is not None"),
    ),
    Change(
        "a_run_that_is_taken_over_keeps_its_slot_and_a_lapsed_one_needs_one",
        swap(
            "stores/memory.py:MemoryStore.claim",
            "held.owner == takes_over",
            "held.owner == takes_over and not self._full_limit(_scopes_of_row(kept.row))",
        ),
    ),
    Change(
        "a_parked_run_is_held_for_every_one_that_looks_for_work",
        swap(
            "stores/memory.py:MemoryStore.claim_lapsed",
            "not self._is_live(kept, '')",
            "kept.leases[''].expires in (_NEVER, float('-inf'))",
        ),
    ),
    Change(
        "runs_that_are_parked_and_taken_over_at_random_never_share_a_slot",
        swap(
            "stores/memory.py:MemoryStore.claim",
            "not attempt and self._full_limit(_scopes_of_row(kept.row))",
            "takes_over is None and self._full_limit(_scopes_of_row(kept.row))",
        ),
        arguments={"seed": 0},
    ),
    Change(
        "an_attempt_that_a_worker_holds_is_ended_under_its_lease_only",
        drop("stores/memory.py:MemoryStore.append", "rules.check_ends(...)"),
        arguments={"kind": "StepFailed"},
    ),
    Change(
        "an_attempt_that_no_worker_holds_is_ended_under_the_lease_of_the_run",
        swap("stores/memory.py:MemoryStore.append", "self._is_live(kept, name)", "name in kept.leases"),
        arguments={"how": "lapsed"},
    ),
    Change(
        "others_see_which_attempts_of_a_run_are_held",
        swap(
            "stores/memory.py:MemoryStore.held_attempts",
            "self._is_live(kept, name)",
            "kept.leases[name].owner",
        ),
    ),
    Change(
        "a_lapsed_lease_is_new_to_its_owner_too",
        drop("stores/memory.py:MemoryStore._take", "held.generation += 1"),
    ),
    Change(
        "a_lease_without_a_ttl_never_lapses",
        swap("stores/memory.py:MemoryStore._elapsed_after", "_NEVER", "self._clock.elapsed() + 3600"),
    ),
    Change(
        "a_lease_can_get_and_lose_its_ttl",
        drop("stores/memory.py:MemoryStore.renew", "held.expires = self._elapsed_after(ttl)"),
    ),
    Change(
        "a_lease_without_a_ttl_takes_a_slot",
        swap(
            "stores/memory.py:MemoryStore._is_live",
            "held.expires > self._clock.elapsed()",
            "_NEVER > held.expires > self._clock.elapsed()",
        ),
    ),
    Change(
        "runs_are_claimed_for_the_engine_that_carries_them",
        swap("stores/memory.py:MemoryStore.claim_lapsed", "kept.row.provider != provider", "False"),
    ),
    Change(
        "events_are_found_by_their_keys_in_the_order_of_the_log",
        swap(
            "stores/memory.py:MemoryStore.find",
            "sorted((by_key[key] for key in set(keys) if key in by_key), key=_seq)",
            "[by_key[key] for key in keys if key in by_key]",
        ),
    ),
    Change(
        "what_is_not_a_key_finds_nothing",
        swap("stores/memory.py:MemoryStore.find", "key in by_key", "True"),
        arguments={"key": "ab"},
    ),
    Change(
        "a_checkpoint_comes_back_byte_for_byte",
        swap(
            "stores/memory.py:MemoryStore.save_checkpoint",
            ("kept.checkpoint = checkpoint", "checkpoint"),
            "Checkpoint(checkpoint.run_seq, '', 0, '', b'', checkpoint.body)",
        ),
    ),
    Change(
        "a_newer_checkpoint_replaces_an_older_one_and_never_the_other_way",
        swap(
            "stores/memory.py:MemoryStore.save_checkpoint",
            "kept.checkpoint.run_seq <= checkpoint.run_seq",
            "True",
        ),
    ),
    Change(
        "checkpoints_of_two_runs_are_kept_apart",
        swap(
            "stores/memory.py:MemoryStore.save_checkpoint",
            "self._kept(run_id)",
            "next(iter(self._runs.values()))",
        ),
    ),
    Change(
        "a_run_that_does_not_exist_has_no_checkpoint",
        swap(
            "stores/memory.py:MemoryStore.load_checkpoint",
            "self._kept(run_id).checkpoint",
            "self._runs[run_id].checkpoint if run_id in self._runs else None",
        ),
    ),
    Change(
        "a_removed_run_takes_its_checkpoint_along",
        swap(
            "stores/memory.py:MemoryStore.load_checkpoint",
            "self._kept(run_id).checkpoint",
            "self._runs[run_id].checkpoint if run_id in self._runs else None",
        ),
    ),
    Change(
        "a_run_is_created_with_its_contents",
        drop("stores/memory.py:MemoryStore.create_run", "self._keep(kept, contents)"),
    ),
    Change(
        "a_request_that_is_refused_or_repeated_keeps_nothing",
        swap(
            "stores/memory.py:MemoryStore.create_run",
            "CreatedRun(earlier.row, (), duplicate=True)",
            "(self._keep(earlier, contents), CreatedRun(earlier.row, (), duplicate=True))[1]",
        ),
    ),
    Change(
        "a_name_stands_for_the_bytes_that_were_kept_last",
        swap(
            "stores/memory.py:MemoryStore._keep",
            "kept.contents[one.name] = one.sha256",
            "kept.contents.setdefault(one.name, one.sha256)",
        ),
    ),
    Change(
        "what_is_not_there_is_told_by_name",
        swap("stores/memory.py:MemoryStore.kept", "raise ContentMissing(run_id, name)", "return b''"),
    ),
    Change(
        "removing_a_run_leaves_what_another_run_has",
        swap(
            "stores/memory.py:MemoryStore.prune",
            "self._remove_unused_contents()",
            "self._contents.clear()",
        ),
    ),
    Change(
        "many_large_contents_come_back_byte_for_byte",
        swap(
            "stores/memory.py:MemoryStore._keep",
            "self._contents.setdefault(one.sha256, one.content)",
            "self._contents.setdefault(one.sha256, one.content[:65536])",
        ),
    ),
    Change(
        "wake_ups_change_without_events_under_the_lease_of_the_run",
        swap(
            "stores/memory.py:MemoryStore.append",
            "not fresh and (writes or not (set_wake_ups or drop_wake_ups or audit))",
            "not fresh",
        ),
    ),
    Change(
        "an_attempt_starts_with_its_events_and_its_lease",
        swap("stores/memory.py:MemoryStore.start_attempt", ("self.append(...)", "writes"), "writes[1:]"),
    ),
    Change(
        "an_engine_sees_the_wake_ups_of_its_own_runs",
        swap("stores/memory.py:MemoryStore.due", "kept.row.provider != provider", "False"),
    ),
    Change(
        "wake_ups_without_events_change_only_if_nothing_has_come_since",
        swap("stores/memory.py:MemoryStore.append", "after is not None and after != kept.row.head", "False"),
    ),
    Change(
        "open_runs_of_an_engine_are_found",
        swap("stores/memory.py:MemoryStore.open_runs", "kept.row.status not in TERMINAL", "True"),
    ),
    Change(
        "no_attempt_starts_while_the_run_is_paused",
        swap("stores/memory.py:MemoryStore.start_attempt", "kept.row.status is RunStatus.PAUSED", "False"),
    ),
    Change(
        "an_attempt_starts_together_with_the_end_of_the_pause",
        swap("stores/rules.py:keys_of_starts", "write.event_type != EventType.RUN_RESUMED", "True"),
    ),
    Change(
        "an_attempt_that_another_worker_holds_is_not_given_away",
        swap("stores/memory.py:MemoryStore.start_attempt", "self._is_live(kept, claim.name)", "False"),
    ),
    Change(
        "the_worker_whose_attempt_was_taken_over_is_fenced_off",
        swap("stores/memory.py:MemoryStore._take", "held.generation += 1", "held.generation = 1"),
    ),
    Change(
        "a_worker_that_starts_an_attempt_again_gets_the_next_generation",
        swap(
            "stores/memory.py:MemoryStore.start_attempt",
            "kept.leases[claim.name].owner != claim.owner",
            "True",
        ),
    ),
    Change(
        "an_attempt_that_has_ended_is_answered_with_its_end",
        swap("stores/memory.py:MemoryStore.start_attempt", "rules.keys_of_ends(...)", "()"),
        arguments={"kind": "StepFailed"},
    ),
    Change(
        "no_attempt_starts_without_the_lease_of_its_run",
        drop("stores/memory.py:MemoryStore.start_attempt", "rules.check_fence(...)"),
    ),
    Change(
        "wake_ups_change_together_with_the_start_of_an_attempt",
        swap("stores/memory.py:MemoryStore.start_attempt", ("self.append(...)", "drop_wake_ups"), "()"),
    ),
    Change(
        "an_attempt_has_one_end_and_the_second_is_answered_with_it",
        swap("stores/rules.py:other_ends", "write.event_type not in EXCLUDED_BY", "True"),
        arguments={"first": "StepFailed", "second": "StepCompleted"},
    ),
    Change(
        "of_a_batch_the_second_end_of_an_attempt_is_left_out",
        swap("stores/rules.py:recorded", "writes", "writes[:1]"),
    ),
    Change(
        "a_batch_that_ends_an_attempt_twice_is_refused",
        drop("stores/memory.py:MemoryStore.append", "rules.check_one_end(writes)"),
    ),
    Change(
        "a_log_that_comes_from_elsewhere_is_kept_as_it_is",
        swap(
            "stores/memory.py:MemoryStore.create_run",
            "rules.new_writes(writes, {})",
            "[write for write in writes if write.event_type != 'StepCompleted']",
        ),
    ),
    Change(
        "100_kb_of_hostile_prose_comes_back_byte_for_byte",
        swap("stores/rules.py:records_of", "write.payload", "write.payload.replace(b'\\\\u0000', b'')"),
        arguments={"field": "a value in a payload", "text": "NUL"},
    ),
    Change(
        "a_busy_run_does_not_keep_the_others_from_being_delivered",
        swap("stores/memory.py:MemoryStore.claim_line", "min(free, key=lambda one: one[0])", "free[0]"),
    ),
    Change(
        "a_claimed_run_that_was_never_started_is_handed_out_again",
        swap("stores/memory.py:MemoryStore.claim_next", "self._is_live(kept, '')", "kept.leases"),
    ),
    Change(
        "a_dead_letter_can_be_dropped_and_a_bus_removed",
        drop("stores/memory.py:MemoryStore.remove_bus", "self._buses.pop(bus, None)"),
    ),
    Change(
        "a_dead_letter_is_kept_apart_and_its_line_goes_on",
        swap("stores/memory.py:MemoryStore.failed", "line.waiting.pop(0)", "line.waiting[0]"),
    ),
    Change(
        "a_delayed_run_waits_for_its_time",
        drop(
            "stores/rules.py:may_start",
            "if row.start_at is not None and row.start_at > now: ...",
        ),
    ),
    Change(
        "a_failure_holds_its_line_for_a_while_and_no_other",
        drop("stores/memory.py:MemoryStore.failed", "line.not_before = ..."),
    ),
    Change(
        "a_lapsed_lease_cannot_be_renewed_for_its_slot_may_be_taken",
        drop(
            "stores/memory.py:MemoryStore.renew",
            "if kept is None or not self._is_live(kept, lease.fence.attempt): ...",
        ),
    ),
    Change(
        "a_lease_has_one_holder",
        swap("stores/memory.py:MemoryStore.claim", "held.owner == owner", "True"),
    ),
    Change(
        "a_record_says_everything_its_write_said",
        swap("stores/rules.py:records_of", "write.engine_attempt_id", "1"),
    ),
    Change(
        "a_relay_that_lost_its_claim_changes_nothing",
        swap(
            "stores/memory.py:MemoryStore._held_line",
            "line is not None and line.generation == claim.generation",
            "line is not None",
        ),
    ),
    Change(
        "a_released_lease_is_free_and_its_holder_fenced_off",
        swap(
            "stores/memory.py:MemoryStore.release",
            "held is not None and held.generation == lease.fence.generation",
            "held is not None",
        ),
    ),
    Change(
        "a_removed_run_is_not_run_again_by_a_repeated_request",
        drop("stores/memory.py:MemoryStore.prune", "self._pruned[_admitted(kept.row)] = run_id"),
    ),
    Change(
        "a_renewed_lease_does_not_lapse", drop("stores/memory.py:MemoryStore.renew", "held.expires = ...")
    ),
    Change(
        "a_repeated_event_that_says_something_else_changes_nothing_and_is_told",
        swap("stores/rules.py:outcome", "_differs(write, earlier)", "False"),
    ),
    Change(
        "a_run_keeps_the_reference_to_its_plan",
        swap(
            "stores/memory.py:MemoryStore.create_run",
            "rules.first_row(new, now)",
            "replace(rules.first_row(new, now), plan_ref=None)",
        ),
    ),
    Change(
        "a_reference_that_is_not_that_of_the_runs_plan_is_refused",
        drop("stores/memory.py:MemoryStore.create_run", "check_new_run(new)"),
        arguments={"wrong": {"plan_id": "other"}},
    ),
    Change(
        "a_run_id_belongs_to_one_run",
        swap(
            "stores/memory.py:MemoryStore.create_run",
            "admission in self._pruned or run_id in self._runs or run_id in self._pruned.values()",
            "admission in self._pruned or run_id in self._pruned.values()",
        ),
    ),
    Change(
        "a_run_is_found_by_the_ids_of_its_engine",
        swap(
            "stores/memory.py:MemoryStore.run_of_engine",
            "engine_columns(kept.row.engine)[:3] == ids",
            "kept.row.engine",
        ),
        arguments={"engine": ENGINES[1]},
    ),
    Change(
        "a_reference_to_no_run_of_an_engine_is_refused",
        drop("stores/memory.py:MemoryStore.set_engine", "check_engine_ref(engine, run_id)"),
        arguments={"engine": msgspec.structs.replace(ENGINES[1], namespace="")},
    ),
    Change(
        "a_run_that_does_not_exist_is_not_found",
        swap("stores/memory.py:MemoryStore._kept", "RunNotFound", "KeyError"),
    ),
    Change(
        "a_run_that_needs_approval_waits_for_it",
        swap("stores/rules.py:may_start", "row.needs_approval", "False"),
    ),
    Change(
        "a_run_that_needs_approval_starts_only_with_the_plan_that_was_approved",
        swap("stores/rules.py:_check_approved_plan", "approved != actual", "False"),
    ),
    Change(
        "an_approval_that_names_no_plan_lets_no_run_start",
        swap("stores/rules.py:_check_approved_plan", "approved is None", "False"),
    ),
    Change(
        "a_run_that_ended_without_its_approval_is_not_reopened",
        swap("stores/memory.py:MemoryStore.append", "rules.opens(kept.row.status, fresh)", "False"),
    ),
    Change(
        "a_run_is_not_created_as_started_without_the_approval_it_needs",
        swap("stores/memory.py:MemoryStore.create_run", "rules.opens(row.status, writes)", "False"),
    ),
    Change(
        "a_sound_store_has_no_problems_and_counts_what_it_keeps",
        swap(
            "stores/memory.py:MemoryStore.stats",
            "sum((kept.row.status not in TERMINAL for kept in self._runs.values()))",
            "len(self._runs)",
        ),
    ),
    Change(
        "a_thousand_repetitions_change_nothing",
        drop(
            "stores/memory.py:MemoryStore._store",
            "kept.by_key.update({record.idempotency_key: record for record in stored})",
        ),
    ),
    Change(
        "a_watcher_sees_everything_once_and_in_order",
        swap("stores/memory.py:MemoryStore.watch", "after = records[-1].run_seq", "after += 1"),
    ),
    Change(
        "an_id_that_is_none_is_refused",
        drop("stores/memory.py:MemoryStore.create_run", "check_new_run(new)"),
        arguments={"bad": "a b"},
    ),
    Change(
        "any_text_in_a_payload_comes_back_byte_for_byte",
        swap("stores/rules.py:records_of", "write.payload", "write.payload.replace(b'\\\\u0000', b'')"),
        arguments={"text": "\0" * 10},
    ),
    Change(
        "events_get_rising_numbers_in_the_order_of_the_append",
        swap("stores/rules.py:records_of", "fresh", "reversed(fresh)"),
    ),
    Change(
        "many_reconcilers_never_start_a_run_twice",
        swap(
            "stores/memory.py:MemoryStore.claim_next",
            "not self._is_live(kept, '')",
            "not self._is_live(kept, '') or kept.leases[''].generation < 2",
        ),
    ),
    Change(
        "no_name_has_100_kb_of_hostile_text",
        drop("stores/memory.py:MemoryStore.set_limit", "texts.check_limit(limit)"),
        arguments={"field": "name of a limit"},
    ),
    Change(
        "nothing_is_found_by_a_name_of_hostile_text",
        swap(
            "stores/memory.py:MemoryTenantRuns.page",
            "texts.cursor_of(query)",
            "int(query.cursor) if query.cursor is not None else None",
        ),
        arguments={"question": "cursor of a page"},
    ),
    Change(
        "of_a_batch_only_what_is_new_is_stored",
        swap(
            "stores/rules.py:new_writes",
            "fresh.setdefault(write.idempotency_key, write)",
            "fresh[write.event_id + str(len(fresh))] = write",
        ),
    ),
    Change(
        "others_see_who_holds_a_lease_and_whether_it_has_lapsed",
        swap("stores/memory.py:MemoryStore.held_lease", "self._is_live(kept, '')", "True"),
    ),
    Change(
        "no_more_runs_of_one_key_are_live_than_their_limit_however_many_ask",
        swap("stores/rules.py:has_slot", "others + ahead < slots", "others + ahead <= slots"),
    ),
    Change(
        "runs_of_one_key_take_slots_in_line_and_each_applies_its_own_limit",
        swap("stores/rules.py:has_slot", "others + ahead < slots", "others < slots"),
    ),
    Change(
        "reading_goes_on_where_it_stopped",
        swap("stores/memory.py:MemoryStore.read", "log[start:start + limit]", "log[start:]"),
    ),
    Change(
        "runs_are_filtered",
        swap("stores/rules.py:matches", "query.project_id in (None, run.project_id)", "True"),
        arguments={"query": RunQuery(project_id="nowhere"), "found": []},
    ),
    Change(
        "runs_are_listed_newest_first_page_by_page",
        swap("stores/memory.py:MemoryTenantRuns.page", "-kept.number", "kept.number"),
    ),
    Change(
        "runs_start_in_order_of_priority_then_age_each_once",
        swap(
            "stores/memory.py:MemoryStore._turn",
            "(live, self._served.get(tenant, 0), -kept.row.priority, kept.number)",
            "(live, self._served.get(tenant, 0), kept.number, 0)",
        ),
    ),
    Change(
        "the_lease_of_an_attempt_is_for_the_events_of_that_attempt",
        swap(
            "stores/rules.py:check_fence",
            "not may_write(write.event_type, write.step_id, write.logical_attempt_id, fence)",
            "fence is None",
        ),
    ),
    Change(
        "the_same_request_for_something_else_is_refused",
        drop(
            "stores/memory.py:MemoryStore.create_run",
            "rules.check_same_request(new, earlier.row.plan_sha256, earlier.row.inputs_sha256)",
        ),
        arguments={"other": {"inputs_sha256": "b"}},
    ),
    Change(
        "the_same_request_gives_the_same_run_and_stores_nothing",
        swap("stores/memory.py:MemoryStore.create_run", "earlier is not None", "False"),
    ),
    Change(
        "the_slot_of_a_dead_holder_is_free_and_recovery_needs_one",
        swap(
            "stores/memory.py:MemoryStore.claim_lapsed",
            "started and (not self._is_live(kept, '')) and (not self._full_limit(_scopes_of_row(kept.row)))",
            "started and (not self._is_live(kept, '')) or self._full_limit(_scopes_of_row(kept.row))",
        ),
    ),
    Change(
        "types_nobody_knows_are_kept",
        swap(
            "stores/memory.py:MemoryStore._store",
            ("kept.log += stored", "stored"),
            "[r for r in stored if r.event_type[:3] in ('Run', 'Ste')]",
        ),
    ),
    Change(
        "wake_ups_are_due_in_order_and_gone_when_dropped",
        drop("stores/memory.py:MemoryStore.append", "kept.wake_ups.pop(key, None)"),
    ),
    Change(
        "what_a_broker_says_is_kept_for_people_whatever_it_is",
        drop("stores/memory.py:MemoryStore.failed", "error = texts.readable(error)"),
        arguments={"text": "NUL"},
    ),
    Change(
        "a_bus_with_a_filter_gets_only_the_events_that_it_wants",
        swap(
            "stores/memory.py:MemoryStore._store",
            "self._wanted(bus, stored)",
            "[one.run_seq for one in stored]",
        ),
    ),
    Change(
        "a_bus_with_a_filter_gets_only_the_earlier_events_that_it_wants",
        swap(
            "stores/memory.py:MemoryStore.add_bus",
            "self._wanted(bus, kept.log)",
            "[one.run_seq for one in kept.log]",
        ),
    ),
    Change(
        "events_that_no_bus_wants_do_not_keep_a_run_from_being_pruned",
        swap(
            "stores/memory.py:MemoryStore._store",
            "self._wanted(bus, stored)",
            "[one.run_seq for one in stored]",
        ),
    ),
    Change(
        "the_filter_of_a_bus_does_not_change",
        drop("stores/memory.py:MemoryStore.add_bus", "rules.check_filter(bus, only, self._filters[bus])"),
    ),
    Change(
        "without_a_bus_nothing_waits",
        swap(
            "stores/memory.py:MemoryStore.__init__",
            ("self._buses: dict[str, dict[str, _Line]] = {}", "{}"),
            "{'kafka': {}}",
        ),
    ),
    Change(
        "without_a_lease_only_what_others_decided_can_be_recorded",
        swap(
            "stores/rules.py:check_fence",
            "not may_write(write.event_type, write.step_id, write.logical_attempt_id, fence)",
            "fence is not None and (not may_write('', write.step_id, write.logical_attempt_id, fence))",
        ),
    ),
]

# About values, not about stores: they need no store to fail.
WITHOUT_A_STORE = {"half_a_character_cannot_be_written"}


def store_with(edit: Edit | None) -> Any:
    """The class of the store in memory, with one place of its source changed."""
    texts = {name: (STORES / name).read_text() for name in ("rules.py", "memory.py")}
    if edit is not None:
        name = edit.file.removeprefix("stores/")
        texts[name] = edit.apply(texts[name])
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
        Broken(f"breaks it in {change.edit.place}", promise, arguments=change.arguments),
        world_of(store_with(change.edit)),
    )


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.promise)
def test_the_store_as_it_is_keeps_the_promise_in_the_same_world(change: Change) -> None:
    promise = getattr(StorePromises, f"test_{change.promise}")
    assert set(signature(promise).parameters) == {"self", "world", *change.arguments}
    promise(None, world_of(store_with(None)), **change.arguments)


def test_every_promise_has_a_store_that_breaks_it() -> None:
    caught = {change.promise for change in CHANGES}
    caught |= {broken.promise.__name__.removeprefix("test_") for broken in [*BROKEN, *BROKEN_SQLITE]}
    assert promised() - caught - WITHOUT_A_STORE == set()
