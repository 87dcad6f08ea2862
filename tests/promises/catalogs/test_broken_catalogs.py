"""Each promise of catalogs notices a catalog that does not keep it."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import podium.catalogs
from podium.testing.catalog_promises import RegistrationTablePromises, ServiceCatalogPromises
from tests.planted.edits import Edit, drop, swap

_SERVICES, _TABLE = "catalogs/memory.py:MemoryServices", "catalogs/memory.py:MemoryTable"


class Change(NamedTuple):
    """How the source of the catalog is changed, and the promise that has to notice."""

    promise: str
    edit: Edit


CHANGES = [
    Change(
        "services_are_listed_as_they_were_registered",
        swap(f"{_SERVICES}.services", "sorted(self._services)", "self._services"),
    ),
    Change(
        "registering_again_changes_nothing",
        swap(f"{_SERVICES}.services", "sorted(self._services)", "[*self._services, *self._services]"),
    ),
    Change(
        "registering_other_content_replaces_all_of_it",
        swap(
            f"{_SERVICES}.register",
            "self._services[service.node_id] = checked_service(service)",
            "self._services.setdefault(service.node_id, service)",
        ),
    ),
    Change(
        "a_service_is_removed_and_removing_it_again_succeeds",
        swap(f"{_SERVICES}.deregister", "self._services.pop(node_id, None)", "self._services.pop(node_id)"),
    ),
    Change(
        "the_largest_metadata_is_kept",
        swap(
            f"{_SERVICES}.register",
            "self._services[service.node_id] = checked_service(service)",
            "self._services[service.node_id] = service.model_copy(update={'meta': dict([*service.meta.items()][:63])})",
        ),
    ),
    Change(
        "any_text_is_kept_as_it_is",
        swap(
            f"{_SERVICES}.register",
            "checked_service(service)",
            "service.model_copy(update={'tags': tuple(tag.strip() for tag in service.tags if tag)})",
        ),
    ),
    Change(
        "a_service_that_no_catalog_accepts_is_refused_and_not_stored",
        swap(f"{_SERVICES}.register", "checked_service(service)", "service"),
    ),
    Change(
        "services_that_are_registered_concurrently_are_all_listed_in_order",
        swap(f"{_SERVICES}.services", "sorted(self._services)", "sorted(self._services)[:1000]"),
    ),
    Change(
        "the_same_change_again_is_answered_also_after_a_heartbeat_and_a_new_look",
        swap(
            f"{_TABLE}.write",
            "stored is not None and self._changes[node_id] == change.change_id",
            "stored is not None and self._changes[node_id] == change.change_id and not change.expected_revision",
        ),
    ),
    Change(
        "any_text_and_number_is_kept_as_it_is",
        swap(
            f"{_TABLE}.write",
            "self._projections[node_id] = written",
            "self._projections[node_id] = Projection.model_validate_json("
            "written.model_dump_json().replace(chr(92) + 'u0000', ''))",
        ),
    ),
    Change(
        "of_several_heartbeats_of_a_node_the_latest_deadline_counts",
        swap(
            f"{_TABLE}.renew",
            "len({one.node_id for one in renewals if self._renew(one)})",
            "len({one.node_id for one in {one.node_id: one for one in renewals}.values() if self._renew(one)})",
        ),
    ),
    Change(
        "concurrent_batches_of_heartbeats_leave_the_latest_deadline",
        swap(
            f"{_TABLE}.renew",
            "len({one.node_id for one in renewals if self._renew(one)})",
            "len({one.node_id for one in renewals[:100] if self._renew(one)})",
        ),
    ),
    Change(
        "a_projection_is_read_as_it_was_written",
        swap(
            f"{_TABLE}.read", "self._projections.get(node_id)", "next(iter(self._projections.values()), None)"
        ),
    ),
    Change("each_change_raises_the_revision_by_one", swap(f"{_TABLE}.write", "revision + 1", "1")),
    Change(
        "a_change_on_another_revision_is_refused_and_changes_neither_row",
        swap(f"{_TABLE}._may_change", "revision == change.expected_revision", "True", nth=1),
    ),
    Change(
        "the_same_change_again_is_answered_and_not_made_twice",
        drop(f"{_TABLE}.write", "if stored is not None and ...: ..."),
    ),
    Change(
        "a_change_may_follow_one_that_was_reported_as_failed",
        swap(f"{_TABLE}._may_change", "self._changes.get(node_id) == change.may_follow", "True"),
    ),
    Change(
        "of_changes_on_one_revision_one_succeeds",
        swap(f"{_TABLE}._may_change", "revision == change.expected_revision", "True", nth=1),
    ),
    Change(
        "a_retired_row_keeps_its_content_and_none_is_made",
        swap(f"{_TABLE}._register", "registration.status == 'registered'", "True"),
    ),
    Change(
        "a_change_without_a_row_for_others_leaves_it_as_it_is",
        swap(
            f"{_TABLE}.write",
            "if change.registration is not None: ...",
            "self._register(node_id, change.registration or Registration(node=written.node, status='registered'))",
        ),
    ),
    Change(
        "nodes_are_due_at_their_earliest_deadline_the_oldest_first",
        swap(f"{_TABLE}.due", "one.due_at <= now", "one.due_at < now"),
    ),
    Change(
        "a_heartbeat_renews_the_deadline_and_not_the_revision",
        swap(
            f"{_TABLE}._renew",
            "_changed(stored, liveness_deadline=renewal.deadline, heartbeat_at=renewal.timestamp)",
            "_changed(stored, liveness_deadline=renewal.deadline, revision=stored.revision + 1)",
        ),
    ),
    Change(
        "no_heartbeat_of_an_older_epoch_or_time_and_no_earlier_deadline_counts",
        swap(f"{_TABLE}._renew", "renewal.timestamp <= stored.heartbeat_at", "False"),
    ),
    Change(
        "no_heartbeat_of_an_older_epoch_or_time_and_no_earlier_deadline_counts",
        swap(f"{_TABLE}._renew", "renewal.epoch < (stored.node.epoch or 0)", "False"),
    ),
    Change(
        "no_heartbeat_of_an_older_epoch_or_time_and_no_earlier_deadline_counts",
        swap(f"{_TABLE}._renew", "renewal.deadline <= stored.liveness_deadline", "False"),
    ),
    Change(
        "a_node_without_a_liveness_deadline_is_not_renewed",
        swap(
            f"{_TABLE}._renew",
            "if stored is None or stored.liveness_deadline is None: ...",
            "if stored is None:\n    return False\n"
            "stored = _changed(stored, liveness_deadline=stored.liveness_deadline or stored.seen_at)",
        ),
    ),
    Change(
        "a_change_does_not_move_a_renewed_deadline_back",
        drop(f"{_TABLE}.write", "liveness_deadline=_liveness(stored, change.projection)"),
    ),
    Change(
        "a_change_does_not_move_a_renewed_deadline_back",
        drop(f"{_TABLE}.write", "heartbeat_at=_heartbeat(stored, change.projection)"),
    ),
    Change(
        "an_unsettled_node_is_due_and_has_another_revision",
        drop(f"{_TABLE}.unsettle", "revision=stored.revision + 1"),
    ),
    Change(
        "an_unsettled_node_is_due_and_has_another_revision",
        drop(f"{_TABLE}.unsettle", "self._changes[node_id] = ''"),
    ),
    Change(
        "due_nodes_that_follow_another_one_are_listed_from_there",
        swap(f"{_TABLE}.due", "_place(one) > _place(after)", "one.deadline > after.deadline"),
    ),
    Change(
        "rows_are_listed_in_pages_in_the_order_of_their_ids",
        swap("catalogs/memory.py:_page", "node_id > after", "node_id >= after"),
    ),
    Change(
        "a_summary_counts_projections_by_state_and_has_the_oldest_deadline",
        swap(f"{_TABLE}.summary", "min(...)", "max(deadlines, default=None)"),
    ),
]


def catalogs_with(edit: Edit) -> dict[str, Any]:
    """The catalogs of a source that was changed."""
    text = edit.apply((Path(podium.catalogs.__file__).parent / "memory.py").read_text())
    module = ModuleType("broken_catalogs")
    sys.modules[module.__name__] = module
    exec(compile(text, "memory.py", "exec"), module.__dict__)
    return module.__dict__


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.promise)
def test_a_catalog_that_breaks_the_promise_is_caught(change: Change) -> None:
    broken, name = catalogs_with(change.edit), f"test_{change.promise}"
    if hasattr(ServiceCatalogPromises, name):
        promise, catalog = getattr(ServiceCatalogPromises, name), broken["MemoryServices"]()
    else:
        promise, catalog = getattr(RegistrationTablePromises, name), broken["MemoryTable"]()
    with pytest.raises((Exception, pytest.fail.Exception)):
        promise(None, catalog)


def test_every_promise_of_catalogs_has_a_catalog_that_breaks_it() -> None:
    promised = {
        name.removeprefix("test_")
        for suite in (ServiceCatalogPromises, RegistrationTablePromises)
        for name in vars(suite)
        if name.startswith("test_")
    }
    assert promised == {change.promise for change in CHANGES}
