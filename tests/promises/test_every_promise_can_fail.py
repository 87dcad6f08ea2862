"""No promise is empty: for each there is a store that breaks it, and is caught.

The store in memory is changed in one place of its source, made anew, and given the promise. Together with the broken
stores next door this covers every promise there is; a new one without a store that fails it fails here.
"""

import re
import sys
from graphlib import TopologicalSorter
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest

import podium.stores
from podium.errors import InvalidEvent, InvalidId
from podium.log.runs import RunQuery
from podium.testing.clock import VirtualClock
from podium.testing.store_promises import StorePromises
from podium.testing.store_promises.reading import ENGINES
from tests.conformance import promised
from tests.planted.edits import Edit, before, drop, swap
from tests.promises.broken import Broken, assert_noticed
from tests.promises.sqlite.test_broken_sqlite_stores import BROKEN as BROKEN_SQLITE
from tests.promises.test_broken_memory_stores import BROKEN, BrokenWorld

STORES = Path(podium.stores.__file__).parent


class Change(NamedTuple):
    """How the source of the store is changed, and the promise that has to notice."""

    promise: str
    edit: Edit
    arguments: dict[str, Any] = {}  # noqa: RUF012  a constant


_SCHEDULES = "stores/memory/schedules.py:MemorySchedules"
_PLANS = "stores/memory/plans.py:MemoryPlans"
_TOKENS = "stores/memory/tokens.py:MemoryTokens"
_SESSIONS = "stores/memory/sessions.py:MemorySessions"
_ENDPOINTS = "stores/memory/endpoints.py:MemoryEndpoints"
_LISTED = "stores/memory/tenant_runs.py:MemoryTenantRuns.page"
CHANGES = [
    Change(
        "a_session_is_found_as_it_was_added",
        drop(f"{_SESSIONS}.remove_session", "self._sessions.pop(sha256, None)"),
    ),
    Change(
        "sessions_and_codes_end_with_their_token", drop(f"{_TOKENS}.remove_token", "self._end_with(token_id)")
    ),
    Change(
        "a_token_that_is_gone_gets_no_session_and_no_code",
        swap(f"{_SESSIONS}.add_login_code", "code.token_id not in self._tokens", "False"),
    ),
    Change(
        "expired_sessions_and_codes_go_with_the_next_session",
        swap(f"{_SESSIONS}.add_session", "one.expires_at > now", "True", nth=1),
    ),
    Change(
        "of_many_who_take_a_code_one_gets_it",
        swap(f"{_SESSIONS}.take_login_code", "self._codes.pop(sha256, None)", "self._codes.get(sha256)"),
    ),
    Change(
        "the_first_token_is_made_once", swap(f"{_TOKENS}.add_token", "only_first and self._tokens", "False")
    ),
    Change(
        "in_a_closed_tenant_no_token_works_and_nothing_starts",
        drop("stores/memory/log.py:MemoryLog.create_run", "self._require_open(new.identity.tenant_id)"),
    ),
    Change(
        "a_reopened_tenant_is_as_it_was",
        swap(f"{_SESSIONS}.open_tenant", "before is not None", "False"),
    ),
    Change(
        "tenants_that_were_created_or_closed_are_listed",
        swap(f"{_SESSIONS}.close_tenant", "known.created_at if known is not None else at", "at"),
    ),
    Change(
        "a_name_is_given_once_among_all_tenants",
        swap(f"{_ENDPOINTS}.add_endpoint", "(endpoint.kind, endpoint.name) in self._endpoints", "False"),
    ),
    Change(
        "hooks_are_listed_by_tenant",
        swap(f"{_ENDPOINTS}.list_endpoints", "(one.kind, one.tenant_id) == (kind, tenant_id)", "True"),
    ),
    Change(
        "a_webhook_is_kept_apart_from_a_hook_of_the_same_name",
        swap(f"{_ENDPOINTS}.remove_endpoint", "kind is EndpointKind.HOOK", "True"),
    ),
    Change(
        "what_is_stored_of_a_webhook_is_replaced_if_it_is_as_it_was",
        swap(f"{_ENDPOINTS}.replace_endpoint", "self._endpoints.get(key) != before", "False"),
    ),
    Change(
        "a_hook_is_removed_by_its_tenant_with_its_deliveries",
        swap(f"{_ENDPOINTS}.remove_endpoint", "kept is None or kept.tenant_id != tenant_id", "kept is None"),
    ),
    Change(
        "a_delivery_is_accepted_once_with_its_run",
        swap(f"{_ENDPOINTS}.accept_delivery", "(hook, delivery_id) in self._deliveries", "False"),
    ),
    Change(
        "a_delivery_is_known_as_long_as_it_is_remembered",
        swap(f"{_ENDPOINTS}.has_delivery", "(hook, delivery_id) in self._deliveries", "True"),
    ),
    Change(
        "a_delivery_whose_run_cannot_be_created_is_not_accepted",
        before(
            f"{_ENDPOINTS}.accept_delivery",
            "created = await self.create_run(run.new, run.writes, run.contents, audit=run.audit)",
            "self._deliveries[hook, delivery_id] = at",
        ),
    ),
    Change(
        "old_deliveries_are_forgotten",
        swap(f"{_ENDPOINTS}.accept_delivery", "then >= forget_before", "True"),
    ),
    Change(
        "a_schedule_is_kept_with_what_its_runs_need",
        drop(
            f"{_SCHEDULES}.add_schedule",
            "if key in self._schedules:\n    raise ScheduleExists(schedule.schedule_id)",
        ),
    ),
    Change(
        "a_schedule_of_another_tenant_is_like_one_that_does_not_exist",
        swap(f"{_SCHEDULES}.list_schedules", "key[0] == tenant_id and key[1] > after", "key[1] > after"),
    ),
    Change(
        "schedules_are_listed_by_id_in_pages",
        swap(f"{_SCHEDULES}.list_schedules", "key[1] > after", "key[1] >= after"),
    ),
    Change(
        "a_tick_is_stored_with_its_run_and_the_next_time",
        swap(f"{_SCHEDULES}.change_schedule", "kept.schedule = changed.schedule", "kept.schedule = schedule"),
    ),
    Change(
        "of_many_that_decided_on_one_revision_one_succeeds",
        swap(
            f"{_SCHEDULES}.change_schedule",
            "kept is None or kept.schedule.revision != schedule.revision",
            "kept is None",
        ),
    ),
    Change(
        "a_run_that_cannot_be_created_changes_nothing",
        before(
            f"{_SCHEDULES}.change_schedule",
            "if run is not None:\n    ...",
            "kept.schedule = schedule",
        ),
    ),
    Change(
        "a_time_that_has_a_run_is_recorded_with_that_run",
        swap(
            f"{_SCHEDULES}.change_schedule",
            "schedule_rows.changed(schedule, ticks, created)",
            "schedule_rows.changed(schedule, ticks, None)",
        ),
    ),
    Change(
        "what_its_runs_need_is_replaced_as_a_whole",
        swap(
            f"{_SCHEDULES}.change_schedule",
            "kept.contents = dict(contents)",
            "kept.contents.update(contents)",
        ),
    ),
    Change(
        "a_removed_schedule_leaves_nothing_but_its_runs",
        drop(f"{_SCHEDULES}.remove_schedule", "del self._schedules[tenant_id, schedule_id]"),
    ),
    Change(
        "those_that_are_due_are_found_in_order_and_by_pool",
        swap(f"{_SCHEDULES}.due_schedules", "kept.schedule.definition.pool in pools", "True"),
    ),
    Change(
        "a_change_decides_when_a_schedule_is_due",
        swap(f"{_SCHEDULES}.due_schedules", "due_at <= before", "True"),
    ),
    Change(
        "the_newest_ticks_are_kept_and_listed_in_pages",
        swap(
            f"{_SCHEDULES}.change_schedule",
            "[*kept.ticks, *changed.ticks][-MAX_TICKS:]",
            "[*kept.ticks, *changed.ticks]",
        ),
    ),
    Change(
        "a_token_is_found_as_it_was_added",
        swap(
            f"{_TOKENS}.add_token",
            "self._tokens[token.token_id] = token",
            "self._tokens[token.token_id] = replace(token, projects=())",
        ),
    ),
    Change(
        "the_id_of_a_token_is_never_given_twice",
        swap(f"{_TOKENS}.add_token", "token.token_id in self._tokens", "token in self._tokens.values()"),
    ),
    Change(
        "a_tenant_lists_its_own_tokens_oldest_first",
        swap(f"{_TOKENS}.list_tokens", "token.tenant_id == tenant_id", "True"),
    ),
    Change("a_removed_token_is_gone", drop(f"{_TOKENS}.remove_token", "del self._tokens[token_id]")),
    Change(
        "another_tenants_token_cannot_be_removed",
        swap(
            f"{_TOKENS}.remove_token",
            "found is None or found.tenant_id != tenant_id",
            "found is None",
        ),
    ),
    Change(
        "decisions_about_tokens_are_recorded_with_them",
        drop(f"{_TOKENS}.remove_token", "self._record_audit(audit)"),
    ),
    Change(
        "the_last_use_of_a_token_never_becomes_earlier",
        swap(f"{_TOKENS}.note_token_use", "max(found.last_used_at or at, at)", "at"),
    ),
    Change(
        "of_many_who_remove_a_token_one_succeeds",
        swap(
            f"{_TOKENS}.remove_token",
            "found is None or found.tenant_id != tenant_id",
            "found is not None and found.tenant_id != tenant_id",
        ),
    ),
    Change(
        "a_token_that_no_store_can_keep_changes_nothing",
        drop(f"{_TOKENS}.add_token", "texts.check_token(token)"),
        arguments={"fields": {"name": "a b"}, "error": InvalidId},
    ),
    Change(
        "a_host_gets_the_runs_of_its_tenants_only",
        swap(
            "stores/memory/pools.py:MemoryPools._next_of_pool",
            "tenants is None or kept.row.identity.tenant_id in tenants",
            "True",
        ),
    ),
    Change(
        "a_parked_run_counts_toward_limits_and_continues_in_its_slot",
        swap(
            "stores/memory/limits.py:MemoryLimits._has_slot",
            "is_parked or self._is_live(kept, '')",
            "self._is_live(kept, '')",
        ),
    ),
    Change(
        "a_run_whose_lease_has_lapsed_has_lost_its_slot_also_if_a_signal_wakes_it",
        swap(
            "stores/memory/pools.py:MemoryPools._has_room",
            "kept.keeps_slot or only_ends or not self._full_limit(kept.scopes)",
            "kept.wake_at is not None or not self._full_limit(kept.scopes)",
        ),
    ),
    Change(
        "a_run_that_waits_for_a_limit_can_be_ended",
        swap(
            "stores/memory/pools.py:MemoryPools._has_room",
            "kept.keeps_slot or only_ends or not self._full_limit(kept.scopes)",
            "kept.keeps_slot or not self._full_limit(kept.scopes)",
        ),
    ),
    Change(
        "a_queue_is_listed_in_the_order_in_which_it_is_taken",
        swap("stores/memory/fleet.py:_place", "-run.row.priority", "run.row.priority"),
    ),
    Change(
        "a_page_of_a_queue_stays_valid_when_runs_start_and_come",
        swap("stores/memory/fleet.py:MemoryFleet.queued", "start + n", "n"),
    ),
    Change(
        "a_queue_shows_nothing_of_another_tenant",
        swap(
            "stores/memory/fleet.py:MemoryFleet.queued", "last.row.identity.tenant_id != tenant_id", "False"
        ),
    ),
    Change(
        "the_load_of_a_pool_says_what_its_open_runs_wait_for",
        swap("stores/memory/fleet.py:MemoryFleet._load", "len(line) - len(ready)", "0"),
    ),
    Change(
        "what_holds_a_queued_run_back_is_said",
        swap("stores/memory/pools.py:MemoryPools.held_back_by", "not self._has_turn(kept)", "False"),
    ),
    Change(
        "an_exclusive_run_is_refused_while_its_key_is_in_use",
        drop("stores/memory/log.py:MemoryLog.create_run", "self._check_exclusive(new)"),
    ),
    Change(
        "of_exclusive_runs_that_are_created_at_the_same_time_one_succeeds",
        swap(
            "stores/memory/pools.py:MemoryPools._check_exclusive",
            "len(others) >= (new.concurrency_limit or 0)",
            "False",
        ),
    ),
    Change(
        "a_limit_that_is_removed_limits_nothing",
        swap("stores/memory/limits.py:MemoryLimits.remove_limit", "tenant_id", "'default'"),
    ),
    Change(
        "workers_are_listed_as_they_reported_last",
        drop("stores/memory/fleet.py:MemoryFleet.remove_worker", "self._workers.pop(worker_id, None)"),
    ),
    Change(
        "a_worker_learns_with_its_next_report_that_it_is_to_drain",
        swap(
            "stores/memory/fleet.py:MemoryFleet.report_worker",
            "before is not None and before.is_draining",
            "False",
        ),
    ),
    Change(
        "a_worker_that_was_not_seen_for_a_day_is_forgotten",
        swap("stores/memory/fleet.py:MemoryFleet.report_worker", "one.seen_at >= limit", "True"),
    ),
    Change(
        "a_report_that_cannot_be_kept_is_refused",
        drop("stores/memory/fleet.py:MemoryFleet.report_worker", "texts.check_worker(report)"),
    ),
    Change(
        "a_run_of_a_pool_is_only_for_hosts_of_that_pool",
        swap("stores/memory/pools.py:MemoryPools._next_of_pool", "kept.row.pool == pool", "kept.row.pool"),
    ),
    Change(
        "a_started_run_of_a_pool_is_not_for_others_when_its_lease_has_lapsed",
        swap("stores/memory/pools.py:MemoryPools._next_of_pool", "kept.row.pool == pool", "kept.row.pool"),
    ),
    Change(
        "a_host_gets_no_more_runs_than_it_asks_for_in_order_of_priority_then_age",
        swap(
            "stores/memory/pools.py:MemoryPools.claim_of_pool",
            "len(claimed) < limit",
            "len(claimed) <= limit",
        ),
    ),
    Change(
        "many_hosts_never_get_the_same_run",
        swap(
            "stores/memory/pools.py:MemoryPools._next_of_pool",
            'not self._is_live(kept, "")',
            'kept.leases.get("", _Lease("")).generation < 2',
        ),
    ),
    Change(
        "runs_with_one_key_have_their_turns_by_age_and_keep_no_other_key_waiting",
        swap(
            "stores/memory/pools.py:MemoryPools._has_turn",
            "other.number < kept.number or other.has_turn",
            "other.has_turn",
        ),
    ),
    Change(
        "a_key_has_room_for_as_many_as_its_limit",
        swap("stores/memory/pools.py:MemoryPools._has_turn", "len(before) < limit", "not before"),
    ),
    Change(
        "a_run_keeps_the_turn_of_its_key_without_a_holder",
        swap(
            "stores/memory/pools.py:MemoryPools._has_turn",
            "other is not kept",
            "other is not kept and self._is_live(other, '')",
        ),
    ),
    Change(
        "a_run_of_a_pool_waits_for_its_time_for_its_approval_and_for_limits",
        swap(
            "stores/memory/pools.py:MemoryPools._next_of_pool",
            "rules.may_start(kept.row, now=now)",
            "kept.row.status is RunStatus.PENDING",
        ),
    ),
    Change(
        "one_claim_takes_as_many_runs_as_several_limits_admit_in_order",
        swap("stores/memory/limits.py:MemoryLimits._full_limit", "taken >= most", "taken > most"),
    ),
    Change(
        "a_tenant_with_many_runs_in_a_pool_does_not_keep_another_waiting",
        swap("stores/memory/pools.py:MemoryPools._next_of_pool", "min(queued, key=self._turn)", "queued[0]"),
    ),
    Change(
        "a_parked_run_is_claimed_when_its_time_has_come",
        swap(
            "stores/memory/pools.py:MemoryPools._next_of_pool",
            "kept.wake_at is not None and kept.wake_at <= now",
            "kept.wake_at == rules.WOKEN",
        ),
    ),
    Change(
        "a_signal_wakes_a_parked_run_and_what_its_driver_writes_does_not",
        drop("stores/memory/log.py:MemoryLog.append", "kept.wake_at = rules.WOKEN"),
    ),
    Change(
        "a_run_is_not_parked_over_a_signal_or_without_its_lease",
        swap(
            "stores/memory/pools.py:MemoryPools.park",
            "self._generation(kept, lease.fence) != lease.fence.generation or kept.row.head != after",
            "self._generation(kept, lease.fence) != lease.fence.generation",
        ),
    ),
    Change(
        "a_signal_lets_a_host_look_at_a_run_that_may_not_start_yet",
        swap("stores/memory/pools.py:MemoryPools._next_of_pool", "chosen.row.status in IN_PROGRESS", "True"),
    ),
    Change(
        "leases_are_renewed_together_and_those_that_were_lost_are_left_out",
        swap("stores/memory/pools.py:MemoryPools.renew_all", "lease is not None", "True"),
    ),
    Change(
        "runs_with_new_records_are_found_among_many",
        swap("stores/memory/pools.py:MemoryPools.moved", "self._runs[run_id].row.head > head", "head"),
    ),
    Change(
        "a_decision_is_recorded_with_its_events",
        drop("stores/memory/log.py:MemoryLog.create_run", "self._record_audit(audit)"),
    ),
    Change(
        "a_refused_append_records_no_decision",
        swap(
            "stores/memory/log.py:MemoryLog.append",
            "not fresh and (writes or not (set_wake_ups or drop_wake_ups or audit))",
            "self._record_audit(audit) or not fresh and (writes or not (set_wake_ups or drop_wake_ups))",
        ),
    ),
    Change(
        "repeated_events_are_not_decided_again",
        swap(
            "stores/memory/log.py:MemoryLog.append",
            "not fresh and (writes or not (set_wake_ups or drop_wake_ups or audit))",
            "not fresh and not (set_wake_ups or drop_wake_ups or audit)",
        ),
    ),
    Change(
        "a_repeated_request_is_not_decided_again",
        swap(
            "stores/memory/log.py:MemoryLog.create_run",
            "earlier is not None",
            "earlier and not self._record_audit(audit)",
        ),
    ),
    Change(
        "decisions_without_events_are_recorded_alone_or_with_a_run",
        drop("stores/memory/log.py:MemoryLog.append", "self._record_audit(audit)"),
    ),
    Change(
        "each_tenant_has_a_chain_of_its_own",
        swap(
            "stores/memory/audit.py:MemoryAudit._record_audit",
            "self._audit_heads.get(tenant_id)",
            "max(self._audit_heads.values(), key=lambda head: head.seq, default=None)",
        ),
    ),
    Change(
        "each_record_is_sealed_with_the_key_of_its_time",
        swap("stores/memory/audit.py:MemoryAudit.audit_head", "tenant_id", "min(self._audit_heads) + '?'"),
    ),
    Change(
        "audit_records_are_read_in_pages",
        swap("stores/memory/audit.py:MemoryAudit.read_audit", "found[:limit]", "found"),
    ),
    Change(
        "decisions_at_the_same_time_make_one_chain",
        swap("stores/memory/audit.py:MemoryAudit._record_audit", "chain += records", "chain[:] = records"),
    ),
    Change(
        "audit_records_outlive_their_run",
        swap(
            "stores/memory/store.py:MemoryStore.prune",
            "self._remove_unused_contents()",
            "self._audit.clear()",
        ),
    ),
    Change(
        "an_entry_that_cannot_be_sealed_changes_nothing",
        drop("stores/memory/log.py:MemoryLog.append", "texts.check_audit(audit)"),
        arguments={"fields": {"reason": "x" * 70_000}, "error": InvalidEvent},
    ),
    Change(
        "the_owner_of_a_lease_gets_it_again_with_its_generation",
        swap(
            "stores/memory/leases.py:MemoryLeases.claim",
            "await self.renew(held, ttl=ttl)",
            "None",
        ),
        arguments={"attempt": ""},
    ),
    Change(
        "a_store_has_an_id_that_every_process_sees_and_that_never_changes",
        swap("stores/memory/store.py:MemoryStore.store_id", "self._id", "uuid4().hex"),
    ),
    Change(
        "a_live_lease_is_taken_over_from_the_owner_that_is_named",
        swap("stores/memory/leases.py:MemoryLeases._take", "held.generation += 1", "held.generation = 1"),
        arguments={"attempt": ""},
    ),
    Change(
        "a_lease_is_not_taken_over_from_anybody_else",
        swap(
            "stores/memory/leases.py:MemoryLeases.claim", "held.owner == takes_over", "takes_over is not None"
        ),
    ),
    Change(
        "of_many_that_take_over_at_the_same_time_one_succeeds",
        swap(
            "stores/memory/leases.py:MemoryLeases.claim", "held.owner == takes_over", "takes_over is not None"
        ),
    ),
    Change(
        "a_run_that_is_taken_over_keeps_its_slot_and_a_lapsed_one_needs_one",
        swap(
            "stores/memory/leases.py:MemoryLeases.claim",
            "held.owner == takes_over",
            "held.owner == takes_over and not self._full_limit(kept.scopes)",
        ),
    ),
    Change(
        "a_parked_run_is_held_for_every_one_that_looks_for_work",
        swap(
            "stores/memory/state.py:MemoryState._is_live",
            "held.expires > self._clock.elapsed()",
            "_NEVER > held.expires > self._clock.elapsed()",
        ),
    ),
    Change(
        "runs_that_are_parked_and_taken_over_at_random_never_share_a_slot",
        swap(
            "stores/memory/leases.py:MemoryLeases.claim",
            "not attempt and not kept.keeps_slot and self._full_limit(kept.scopes)",
            "takes_over is None and self._full_limit(kept.scopes)",
        ),
        arguments={"seed": 0},
    ),
    Change(
        "an_attempt_that_a_worker_holds_is_ended_under_its_lease_only",
        drop("stores/memory/log.py:MemoryLog.append", "rules.check_ends(...)"),
        arguments={"kind": "StepFailed"},
    ),
    Change(
        "an_attempt_that_no_worker_holds_is_ended_under_the_lease_of_the_run",
        swap("stores/memory/log.py:MemoryLog.append", "self._is_live(kept, name)", "name in kept.leases"),
        arguments={"how": "lapsed"},
    ),
    Change(
        "others_see_which_attempts_of_a_run_are_held",
        swap(
            "stores/memory/leases.py:MemoryLeases.held_attempts",
            "self._is_live(kept, name)",
            "kept.leases[name].owner",
        ),
    ),
    Change(
        "a_lapsed_lease_is_new_to_its_owner_too",
        drop("stores/memory/leases.py:MemoryLeases._take", "held.generation += 1"),
    ),
    Change(
        "a_lease_without_a_ttl_never_lapses",
        swap("stores/memory/leases.py:MemoryLeases._elapsed_after", "NEVER", "self._clock.elapsed() + 3600"),
    ),
    Change(
        "a_lease_can_get_and_lose_its_ttl",
        drop("stores/memory/leases.py:MemoryLeases.renew", "held.expires = self._elapsed_after(ttl)"),
    ),
    Change(
        "a_lease_without_a_ttl_takes_a_slot",
        swap(
            "stores/memory/state.py:MemoryState._is_live",
            "held.expires > self._clock.elapsed()",
            "_NEVER > held.expires > self._clock.elapsed()",
        ),
    ),
    Change(
        "events_are_found_by_their_keys_in_the_order_of_the_log",
        swap(
            "stores/memory/log.py:MemoryLog.find",
            "sorted((by_key[key] for key in set(keys) if key in by_key), key=seq_of)",
            "[by_key[key] for key in keys if key in by_key]",
        ),
    ),
    Change(
        "what_is_not_a_key_finds_nothing",
        swap("stores/memory/log.py:MemoryLog.find", "key in by_key", "True"),
        arguments={"key": "ab"},
    ),
    Change(
        "a_checkpoint_comes_back_byte_for_byte",
        swap(
            "stores/memory/snapshots.py:MemorySnapshots.save_checkpoint",
            ("kept.checkpoint = checkpoint", "checkpoint"),
            "Checkpoint(checkpoint.run_seq, '', 0, '', b'', checkpoint.body)",
        ),
    ),
    Change(
        "a_newer_checkpoint_replaces_an_older_one_and_never_the_other_way",
        swap(
            "stores/memory/snapshots.py:MemorySnapshots.save_checkpoint",
            "kept.checkpoint.run_seq <= checkpoint.run_seq",
            "True",
        ),
    ),
    Change(
        "checkpoints_of_two_runs_are_kept_apart",
        swap(
            "stores/memory/snapshots.py:MemorySnapshots.save_checkpoint",
            "self._kept(run_id)",
            "next(iter(self._runs.values()))",
        ),
    ),
    Change(
        "a_run_that_does_not_exist_has_no_checkpoint",
        swap(
            "stores/memory/snapshots.py:MemorySnapshots.load_checkpoint",
            "self._kept(run_id).checkpoint",
            "self._runs[run_id].checkpoint if run_id in self._runs else None",
        ),
    ),
    Change(
        "a_removed_run_takes_its_checkpoint_along",
        swap(
            "stores/memory/snapshots.py:MemorySnapshots.load_checkpoint",
            "self._kept(run_id).checkpoint",
            "self._runs[run_id].checkpoint if run_id in self._runs else None",
        ),
    ),
    Change(
        "a_run_is_created_with_its_contents",
        drop("stores/memory/log.py:MemoryLog.create_run", "self._keep(kept, contents)"),
    ),
    Change(
        "a_request_that_is_refused_or_repeated_keeps_nothing",
        swap(
            "stores/memory/log.py:MemoryLog.create_run",
            "CreatedRun(earlier.row, (), duplicate=True)",
            "(self._keep(earlier, contents), CreatedRun(earlier.row, (), duplicate=True))[1]",
        ),
    ),
    Change(
        "a_name_stands_for_the_bytes_that_were_kept_last",
        swap(
            "stores/memory/contents.py:MemoryContents._keep",
            "kept.contents[one.name] = one.sha256",
            "kept.contents.setdefault(one.name, one.sha256)",
        ),
    ),
    Change(
        "what_is_not_there_is_told_by_name",
        swap(
            "stores/memory/contents.py:MemoryContents.kept",
            "raise ContentMissing(run_id, name)",
            "return b''",
        ),
    ),
    Change(
        "removing_a_run_leaves_what_another_run_has",
        swap(
            "stores/memory/store.py:MemoryStore.prune",
            "self._remove_unused_contents()",
            "self._contents.clear()",
        ),
    ),
    Change(
        "many_large_contents_come_back_byte_for_byte",
        swap(
            "stores/memory/contents.py:MemoryContents._keep",
            "self._contents.setdefault(one.sha256, one.content)",
            "self._contents.setdefault(one.sha256, one.content[:65536])",
        ),
    ),
    Change(
        "wake_ups_change_without_events_under_the_lease_of_the_run",
        swap(
            "stores/memory/log.py:MemoryLog.append",
            "not fresh and (writes or not (set_wake_ups or drop_wake_ups or audit))",
            "not fresh",
        ),
    ),
    Change(
        "an_attempt_starts_with_its_events_and_its_lease",
        swap("stores/memory/log.py:MemoryLog.start_attempt", ("self.append(...)", "writes"), "writes[1:]"),
    ),
    Change(
        "an_engine_sees_the_wake_ups_of_its_own_runs",
        swap("stores/memory/snapshots.py:MemorySnapshots.due", "kept.row.provider != provider", "False"),
    ),
    Change(
        "wake_ups_without_events_change_only_if_nothing_has_come_since",
        swap(
            "stores/memory/log.py:MemoryLog.append", "after is not None and after != kept.row.head", "False"
        ),
    ),
    Change(
        "open_runs_of_an_engine_are_found",
        swap("stores/memory/log.py:MemoryLog.open_runs", "kept.row.status not in TERMINAL", "True"),
    ),
    Change(
        "no_attempt_starts_while_the_run_is_paused",
        swap("stores/memory/log.py:MemoryLog.start_attempt", "kept.row.status is RunStatus.PAUSED", "False"),
    ),
    Change(
        "an_attempt_starts_together_with_the_end_of_the_pause",
        swap("stores/rules.py:keys_of_starts", "write.event_type != EventType.RUN_RESUMED", "True"),
    ),
    Change(
        "an_attempt_that_another_worker_holds_is_not_given_away",
        swap("stores/memory/log.py:MemoryLog.start_attempt", "self._is_live(kept, claim.name)", "False"),
    ),
    Change(
        "the_worker_whose_attempt_was_taken_over_is_fenced_off",
        swap("stores/memory/leases.py:MemoryLeases._take", "held.generation += 1", "held.generation = 1"),
    ),
    Change(
        "a_worker_that_starts_an_attempt_again_gets_the_next_generation",
        swap(
            "stores/memory/log.py:MemoryLog.start_attempt",
            "kept.leases[claim.name].owner != claim.owner",
            "True",
        ),
    ),
    Change(
        "an_attempt_that_has_ended_is_answered_with_its_end",
        swap("stores/memory/log.py:MemoryLog.start_attempt", "rules.keys_of_ends(...)", "()"),
        arguments={"kind": "StepFailed"},
    ),
    Change(
        "no_attempt_starts_without_the_lease_of_its_run",
        drop("stores/memory/log.py:MemoryLog.start_attempt", "rules.check_fence(...)"),
    ),
    Change(
        "wake_ups_change_together_with_the_start_of_an_attempt",
        swap("stores/memory/log.py:MemoryLog.start_attempt", ("self.append(...)", "drop_wake_ups"), "()"),
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
        drop("stores/memory/log.py:MemoryLog.append", "rules.check_one_end(writes)"),
    ),
    Change(
        "a_log_that_comes_from_elsewhere_is_kept_as_it_is",
        swap(
            "stores/memory/log.py:MemoryLog.create_run",
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
        "a_bus_says_whether_events_wait",
        swap(
            "stores/memory/outbox.py:MemoryOutbox.has_waiting",
            "any(line.waiting for line in self._buses.get(bus, {}).values())",
            "bool(self._buses.get(bus))",
        ),
    ),
    Change(
        "a_busy_run_does_not_keep_the_others_from_being_delivered",
        swap(
            "stores/memory/outbox.py:MemoryOutbox.claim_line", "min(free, key=lambda one: one[0])", "free[0]"
        ),
    ),
    Change(
        "a_claimed_run_that_was_never_started_is_handed_out_again",
        swap("stores/memory/pools.py:MemoryPools._next_of_pool", "self._is_live(kept, '')", "kept.leases"),
    ),
    Change(
        "a_dead_letter_can_be_dropped_and_a_bus_removed",
        drop("stores/memory/outbox.py:MemoryOutbox.remove_bus", "self._buses.pop(bus, None)"),
    ),
    Change(
        "a_dead_letter_is_kept_apart_and_its_line_goes_on",
        swap("stores/memory/outbox.py:MemoryOutbox.failed", "line.waiting.pop(0)", "line.waiting[0]"),
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
        drop("stores/memory/outbox.py:MemoryOutbox.failed", "line.not_before = ..."),
    ),
    Change(
        "a_lapsed_lease_cannot_be_renewed_for_its_slot_may_be_taken",
        drop(
            "stores/memory/leases.py:MemoryLeases.renew",
            "if kept is None or not self._is_live(kept, lease.fence.attempt): ...",
        ),
    ),
    Change(
        "a_lease_has_one_holder",
        swap("stores/memory/leases.py:MemoryLeases.claim", "held.owner == owner", "True"),
    ),
    Change(
        "a_record_says_everything_its_write_said",
        swap("stores/rules.py:records_of", "write.engine_attempt_id", "1"),
    ),
    Change(
        "a_relay_that_lost_its_claim_changes_nothing",
        swap(
            "stores/memory/outbox.py:MemoryOutbox._held_line",
            "line is not None and line.generation == claim.generation",
            "line is not None",
        ),
    ),
    Change(
        "a_released_lease_is_free_and_its_holder_fenced_off",
        swap(
            "stores/memory/leases.py:MemoryLeases.release",
            "held is not None and held.generation == lease.fence.generation",
            "held is not None",
        ),
    ),
    Change(
        "a_removed_run_is_not_run_again_by_a_repeated_request",
        drop("stores/memory/store.py:MemoryStore.prune", "self._pruned[admitted(kept.row)] = run_id"),
    ),
    Change(
        "a_renewed_lease_does_not_lapse",
        drop("stores/memory/leases.py:MemoryLeases.renew", "held.expires = ..."),
    ),
    Change(
        "a_repeated_event_that_says_something_else_changes_nothing_and_is_told",
        swap("stores/rules.py:outcome", "_differs(write, earlier)", "False"),
    ),
    Change(
        "a_run_keeps_the_reference_to_its_plan",
        swap(
            "stores/memory/log.py:MemoryLog.create_run",
            "rules.first_row(new, now)",
            "replace(rules.first_row(new, now), plan_ref=None)",
        ),
    ),
    Change(
        "a_reference_that_is_not_that_of_the_runs_plan_is_refused",
        drop("stores/memory/log.py:MemoryLog.create_run", "check_new_run(new)"),
        arguments={"wrong": {"plan_id": "other"}},
    ),
    Change(
        "a_run_id_belongs_to_one_run",
        swap(
            "stores/memory/log.py:MemoryLog.create_run",
            "run_id in self._runs or run_id in self._pruned.values()",
            "run_id in self._pruned.values()",
        ),
    ),
    Change(
        "a_run_is_found_by_the_ids_of_its_engine",
        swap(
            "stores/memory/log.py:MemoryLog.run_of_engine",
            "engine_columns(kept.row.engine)[:3] == ids",
            "kept.row.engine",
        ),
        arguments={"engine": ENGINES[1]},
    ),
    Change(
        "a_reference_to_no_run_of_an_engine_is_refused",
        drop("stores/memory/log.py:MemoryLog.set_engine", "check_engine_ref(engine, run_id)"),
        arguments={"engine": msgspec.structs.replace(ENGINES[1], namespace="")},
    ),
    Change(
        "a_run_that_does_not_exist_is_not_found",
        swap("stores/memory/state.py:MemoryState._kept", "RunNotFound", "KeyError"),
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
        swap("stores/memory/log.py:MemoryLog.append", "rules.opens(kept.row.status, fresh)", "False"),
    ),
    Change(
        "a_run_is_not_created_as_started_without_the_approval_it_needs",
        swap("stores/memory/log.py:MemoryLog.create_run", "rules.opens(row.status, writes)", "False"),
    ),
    Change(
        "a_sound_store_has_no_problems_and_counts_what_it_keeps",
        swap(
            "stores/memory/store.py:MemoryStore.stats",
            "sum((kept.row.status not in TERMINAL for kept in self._runs.values()))",
            "len(self._runs)",
        ),
    ),
    Change(
        "a_thousand_repetitions_change_nothing",
        drop(
            "stores/memory/log.py:MemoryLog._store",
            "kept.by_key.update({record.idempotency_key: record for record in stored})",
        ),
    ),
    Change(
        "a_watcher_sees_everything_once_and_in_order",
        swap("stores/memory/log.py:MemoryLog.watch", "after = records[-1].run_seq", "after += 1"),
    ),
    Change(
        "an_id_that_is_none_is_refused",
        drop("stores/memory/log.py:MemoryLog.create_run", "check_new_run(new)"),
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
        "no_name_has_100_kb_of_hostile_text",
        drop("stores/memory/limits.py:MemoryLimits.set_limit", "texts.check_limit(limit)"),
        arguments={"field": "name of a limit"},
    ),
    Change(
        "nothing_is_found_by_a_name_of_hostile_text",
        swap(
            "stores/memory/tenant_runs.py:MemoryTenantRuns.page",
            "place_of(query)",
            "Place('', int(query.cursor)) if query.cursor is not None else None",
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
        swap("stores/memory/leases.py:MemoryLeases.held_lease", "self._is_live(kept, '')", "True"),
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
        swap("stores/memory/log.py:MemoryLog.read", "log[start:start + limit]", "log[start:]"),
    ),
    Change(
        "runs_are_filtered",
        swap(_LISTED, "matches(kept.row, query)", "True"),
        arguments={"query": RunQuery(project_id="nowhere"), "found": []},
    ),
    Change(
        "runs_are_listed_newest_first_page_by_page",
        swap("stores/memory/tenant_runs.py:MemoryTenantRuns.page", "reverse=True", "reverse=False"),
    ),
    Change(
        "runs_are_found_by_what_they_are",
        swap(_LISTED, "matches(kept.row, query)", "True"),
        arguments={"query": RunQuery(pool="gpu"), "found": ["c", "b"]},
    ),
    Change(
        "labels_come_back_as_they_were_given",
        swap("stores/rules.py:first_row", "new.labels", "{}"),
    ),
    Change(
        "labels_that_no_store_may_keep_are_refused",
        drop("stores/memory/log.py:MemoryLog.create_run", "check_new_run(new)"),
        arguments={"labels": {"a": ""}},
    ),
    Change(
        "a_run_is_listed_where_it_was_created_and_pages_stay_valid",
        swap("stores/memory/tenant_runs.py:_place", "kept.row.created_at", "''"),
    ),
    Change(
        "runs_of_one_moment_are_listed_by_their_order_of_creation",
        swap("stores/memory/tenant_runs.py:_place", "kept.number", "-kept.number"),
    ),
    Change(
        "few_runs_are_found_among_many",
        swap(_LISTED, "matches(kept.row, query)", "True"),
    ),
    Change(
        "the_labels_of_a_removed_run_find_nothing",
        drop("stores/memory/store.py:MemoryStore.prune", "del self._runs[run_id]"),
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
            "stores/memory/log.py:MemoryLog.create_run",
            "rules.check_same_request(new, earlier.row.plan_sha256, earlier.row.inputs_sha256)",
        ),
        arguments={"other": {"inputs_sha256": "b"}},
    ),
    Change(
        "the_same_request_gives_the_same_run_and_stores_nothing",
        swap("stores/memory/log.py:MemoryLog.create_run", "earlier is not None", "False"),
    ),
    Change(
        "the_slot_of_a_dead_holder_is_free_and_recovery_needs_one",
        swap("stores/memory/pools.py:MemoryPools._next_of_pool", "self._has_room(kept)", "True"),
    ),
    Change(
        "types_nobody_knows_are_kept",
        swap(
            "stores/memory/log.py:MemoryLog._store",
            ("kept.log += stored", "stored"),
            "[r for r in stored if r.event_type[:3] in ('Run', 'Ste')]",
        ),
    ),
    Change(
        "wake_ups_are_due_in_order_and_gone_when_dropped",
        drop("stores/memory/log.py:MemoryLog.append", "kept.wake_ups.pop(key, None)"),
    ),
    Change(
        "what_a_broker_says_is_kept_for_people_whatever_it_is",
        drop("stores/memory/outbox.py:MemoryOutbox.failed", "error = texts.readable(error)"),
        arguments={"text": "NUL"},
    ),
    Change(
        "a_bus_with_a_filter_gets_only_the_events_that_it_wants",
        swap(
            "stores/memory/log.py:MemoryLog._store",
            "self._wanted(bus, stored)",
            "[one.run_seq for one in stored]",
        ),
    ),
    Change(
        "a_bus_with_a_filter_gets_only_the_earlier_events_that_it_wants",
        swap(
            "stores/memory/outbox.py:MemoryOutbox.add_bus",
            "self._wanted(bus, kept.log)",
            "[one.run_seq for one in kept.log]",
        ),
    ),
    Change(
        "events_that_no_bus_wants_do_not_keep_a_run_from_being_pruned",
        swap(
            "stores/memory/log.py:MemoryLog._store",
            "self._wanted(bus, stored)",
            "[one.run_seq for one in stored]",
        ),
    ),
    Change(
        "the_filter_of_a_bus_does_not_change",
        drop(
            "stores/memory/outbox.py:MemoryOutbox.add_bus",
            "rules.check_filter(bus, only, self._filters[bus])",
        ),
    ),
    Change(
        "without_a_bus_nothing_waits",
        swap(
            "stores/memory/outbox.py:MemoryOutbox.__init__",
            ("self._buses: dict[str, dict[str, BusLine]] = {}", "{}"),
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
    Change(
        "a_published_plan_is_found_by_its_id_its_version_and_its_hash",
        swap(f"{_PLANS}.find", "plan_id in (plan.plan_id, plan.sha256)", "plan_id == plan.plan_id"),
    ),
    Change(
        "a_plan_of_another_tenant_is_not_found",
        swap(
            f"{_PLANS}.content",
            "plan.tenant_id == tenant_id and plan.sha256 == sha256",
            "plan.sha256 == sha256",
        ),
    ),
    Change(
        "a_version_that_was_published_never_changes",
        drop(f"{_PLANS}.publish", "if earlier is not None: return plan_rules.same_plan(plan, earlier)"),
    ),
    Change(
        "pages_list_the_newest_version_of_each_plan_those_published_last_first",
        drop(f"{_PLANS}.page", "seen.add(plan.plan_id)"),
    ),
    Change(
        "a_plan_is_approved_once",
        swap(
            f"{_PLANS}.approve",
            "plan.tenant_id == tenant_id and plan.sha256 == sha256 and plan.approved_at is None",
            "plan.tenant_id == tenant_id and plan.sha256 == sha256",
        ),
    ),
    Change("a_plan_that_could_not_be_named_is_refused", drop(f"{_PLANS}.publish", "check_published(plan)")),
]

# About values, not about stores: they need no store to fail.
WITHOUT_A_STORE = {"half_a_character_cannot_be_written"}


def store_with(edit: Edit | None) -> Any:
    """The class of the store in memory, with one place of its source changed."""
    texts = {f"stores/memory/{path.name}": path.read_text() for path in (STORES / "memory").glob("[a-z]*.py")}
    texts["stores/rules.py"] = (STORES / "rules.py").read_text()
    if edit is not None:
        texts[edit.file] = edit.apply(texts[edit.file])
    rules = made("broken_rules", texts.pop("stores/rules.py"), None)
    # The store is made of the parts that were made here: those that others are made of come first.
    parts = {Path(name).stem: text for name, text in texts.items()}
    uses = {
        part: set(re.findall(r"^from podium\.stores\.memory\.(\w+)", text, re.MULTILINE))
        for part, text in parts.items()
    }
    for part in TopologicalSorter(uses).static_order():
        made(f"broken_{part}", parts[part].replace("from podium.stores.memory.", "from broken_"), rules)
    return sys.modules["broken_store"].__dict__["MemoryStore"]


def made(name: str, text: str, rules: ModuleType | None) -> ModuleType:
    module = ModuleType(name)
    # Where dataclasses look up the annotations of their fields.
    sys.modules[name] = module
    exec(compile(text, name, "exec"), module.__dict__)
    if rules is not None:
        module.__dict__["rules"] = rules
    return module


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
