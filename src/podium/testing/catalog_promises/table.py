"""What every registration table promises."""

import asyncio

import pytest

from podium.ports.catalog import DueNode, Projection, RegistrationTable, RevisionConflict
from podium.testing.catalog_promises.values import (
    HOSTILE_TEXT,
    at,
    change,
    node,
    node_id,
    projection,
    promise,
    renewal,
)


async def _stored(table: RegistrationTable, number: int = 1) -> Projection:
    row = await table.read(node_id(number))
    assert row is not None
    return row


class RegistrationTablePromises:
    @promise
    async def test_a_projection_is_read_as_it_was_written(self, table: RegistrationTable) -> None:
        row = projection(
            description=node(),
            consul_applied=True,
            applied_at=at(1),
            liveness_deadline=at(2),
            retry_at=at(3),
            heartbeat_at=at(4),
        )
        written = await table.write(change(row, status="registered"))
        assert written == row.model_copy(update={"revision": 1})
        assert await table.read(node_id()) == written
        assert await table.read(node_id(2)) is None
        (registration,) = await table.registrations(None, 10)
        assert (registration.node, registration.status) == (node(), "registered")

    @promise
    async def test_each_change_raises_the_revision_by_one(self, table: RegistrationTable) -> None:
        for revision in range(3):
            written = await table.write(change(projection(), revision, change_id=f"run-{revision}/step"))
            assert written.revision == revision + 1

    @promise
    async def test_a_change_on_another_revision_is_refused_and_changes_neither_row(
        self, table: RegistrationTable
    ) -> None:
        with pytest.raises(RevisionConflict):
            await table.write(change(projection(), 1, status="registered"))
        assert await table.read(node_id()) is None
        await table.write(change(projection(), status="registered"))
        before = (await table.read(node_id()), await table.registrations(None, 10))
        for expected in (0, 2):
            other = change(
                projection(description=node(node_version="2.0.0"), state="REJECTED"),
                expected,
                change_id="other/step",
                status="registered",
            )
            with pytest.raises(RevisionConflict):
                await table.write(other)
        assert (await table.read(node_id()), await table.registrations(None, 10)) == before

    @promise
    async def test_the_same_change_again_is_answered_and_not_made_twice(
        self, table: RegistrationTable
    ) -> None:
        first = await table.write(change(projection(), status="registered"))
        assert await table.write(change(projection(), status="registered")) == first
        assert (await _stored(table)).revision == 1

    @promise
    async def test_a_change_may_follow_one_that_was_reported_as_failed(
        self, table: RegistrationTable
    ) -> None:
        await table.write(change(projection(), change_id="run/first"))
        with pytest.raises(RevisionConflict):
            await table.write(change(projection(), change_id="run/second", may_follow="other/first"))
        written = await table.write(change(projection(), change_id="run/second", may_follow="run/first"))
        assert written.revision == 2
        with pytest.raises(RevisionConflict):
            await table.write(change(projection(), change_id="run/third", may_follow="run/second"))

    @promise
    async def test_of_changes_on_one_revision_one_succeeds(self, table: RegistrationTable) -> None:
        writes = [table.write(change(projection(), change_id=f"run-{index}/step")) for index in range(10)]
        ended = await asyncio.gather(*writes, return_exceptions=True)
        assert sum(isinstance(one, Projection) for one in ended) == 1
        assert sum(isinstance(one, RevisionConflict) for one in ended) == 9

    @promise
    async def test_a_retired_row_keeps_its_content_and_none_is_made(self, table: RegistrationTable) -> None:
        other = projection(description=node(epoch=1, node_version="2.0.0"), state="REJECTED")
        await table.write(change(other, status="retired"))
        assert await table.registrations(None, 10) == []
        await table.write(change(projection(), 1, change_id="run-1/step", status="registered"))
        await table.write(change(other, 2, change_id="run-2/step", status="retired"))
        (registration,) = await table.registrations(None, 10)
        assert (registration.status, registration.node.node_version) == ("retired", "1.0.0")
        await table.write(change(other, 3, change_id="run-3/step", status="registered"))
        (registration,) = await table.registrations(None, 10)
        assert (registration.status, registration.node.node_version) == ("registered", "2.0.0")

    @promise
    async def test_a_change_without_a_row_for_others_leaves_it_as_it_is(
        self, table: RegistrationTable
    ) -> None:
        await table.write(change(projection(), status="registered"))
        before = await table.registrations(None, 10)
        await table.write(change(projection(description=node(node_version="2.0.0")), 1, change_id="x/y"))
        assert await table.registrations(None, 10) == before

    @promise
    async def test_the_same_change_again_is_answered_also_after_a_heartbeat_and_a_new_look(
        self, table: RegistrationTable
    ) -> None:
        row = projection(liveness_deadline=at(90))
        await table.write(change(row, status="registered"))
        await table.renew([renewal(seconds=5, deadline=100)])
        renewed = await _stored(table)
        for expected in (0, 1):
            assert await table.write(change(row, expected, status="registered")) == renewed
        assert await _stored(table) == renewed

    @promise
    async def test_any_text_and_number_is_kept_as_it_is(self, table: RegistrationTable) -> None:
        content = {HOSTILE_TEXT: [HOSTILE_TEXT, 1e300, 2**70, 0.1, -1, True, None, {}]}
        hostile = node(
            capabilities=content, metadata=content, endpoints={"a": "http://é'\"%s"}, node_role="'; DROP --"
        )
        written = await table.write(
            change(projection(description=hostile), change_id="'\"%s{0}", status="registered")
        )
        assert written.node == hostile
        assert (await _stored(table)).node == hostile
        assert [one.node for one in await table.registrations(None, 10)] == [hostile]

    # --- deadlines --------------------------------------------------------------------------------

    @promise
    async def test_nodes_are_due_at_their_earliest_deadline_the_oldest_first(
        self, table: RegistrationTable
    ) -> None:
        await table.write(change(projection(1, state="AWAITING_ACK", ack_deadline=at(30))))
        await table.write(change(projection(2, liveness_deadline=at(90), retry_at=at(20))))
        await table.write(change(projection(3, liveness_deadline=at(10))))
        await table.write(change(projection(4)))
        assert await table.due(at(9), 10) == []
        listed = [
            DueNode(node_id=node_id(3), deadline=at(10)),
            DueNode(node_id=node_id(2), deadline=at(20)),
            DueNode(node_id=node_id(1), deadline=at(30)),
        ]
        assert await table.due(at(30), 10) == listed
        assert await table.due(at(30), 2) == listed[:2]

    @promise
    async def test_due_nodes_that_follow_another_one_are_listed_from_there(
        self, table: RegistrationTable
    ) -> None:
        for number in (3, 1, 2):
            await table.write(change(projection(number, liveness_deadline=at(10))))
        await table.write(change(projection(4, liveness_deadline=at(20))))
        first, second, third, fourth = await table.due(at(20), 10)
        assert [first.node_id, second.node_id, third.node_id] == sorted(node_id(one) for one in (1, 2, 3))
        assert await table.due(at(20), 2, first) == [second, third]
        assert await table.due(at(20), 2, third) == [fourth]
        assert await table.due(at(19), 2, third) == []

    @promise
    async def test_a_heartbeat_renews_the_deadline_and_not_the_revision(
        self, table: RegistrationTable
    ) -> None:
        await table.write(change(projection(1, liveness_deadline=at(90), heartbeat_at=at(1))))
        await table.write(change(projection(2, liveness_deadline=at(90))))
        assert (
            await table.renew([renewal(1, seconds=5, deadline=100), renewal(2, seconds=5, deadline=101)]) == 2
        )
        row = await _stored(table)
        assert (row.liveness_deadline, row.heartbeat_at, row.revision) == (at(100), at(5), 1)
        assert (await _stored(table, 2)).liveness_deadline == at(101)
        assert await table.due(at(99), 10) == []

    @promise
    async def test_no_heartbeat_of_an_older_epoch_or_time_and_no_earlier_deadline_counts(
        self, table: RegistrationTable
    ) -> None:
        await table.write(change(projection(liveness_deadline=at(90), heartbeat_at=at(5))))
        before = await _stored(table)
        ignored = [
            renewal(epoch=0, seconds=6, deadline=100),
            renewal(seconds=5, deadline=100),
            renewal(seconds=4, deadline=100),
            renewal(seconds=6, deadline=89),
            renewal(9, seconds=6, deadline=100),
        ]
        assert await table.renew(ignored) == 0
        assert await _stored(table) == before

    @promise
    async def test_of_several_heartbeats_of_a_node_the_latest_deadline_counts(
        self, table: RegistrationTable
    ) -> None:
        await table.write(change(projection(liveness_deadline=at(90))))
        beats = [
            renewal(seconds=5, deadline=100),
            renewal(seconds=6, deadline=101),
            renewal(epoch=0, seconds=7, deadline=102),
        ]
        assert await table.renew(beats) == 1
        row = await _stored(table)
        assert (row.liveness_deadline, row.heartbeat_at) == (at(101), at(6))
        assert await table.renew([]) == 0

    @promise
    async def test_concurrent_batches_of_heartbeats_leave_the_latest_deadline(
        self, table: RegistrationTable
    ) -> None:
        numbers = range(1, 201)
        await asyncio.gather(
            *(table.write(change(projection(number, liveness_deadline=at(90)))) for number in numbers)
        )
        batches = []
        for index in range(8):
            beats = [renewal(number, seconds=index, deadline=100 + index) for number in numbers]
            batches.append(beats if index % 2 else beats[::-1])
        await asyncio.gather(*(table.renew(batch) for batch in batches))
        deadlines = {one.liveness_deadline for one in await table.projections(None, 1000)}
        assert deadlines == {at(107)}

    @promise
    async def test_a_node_without_a_liveness_deadline_is_not_renewed(self, table: RegistrationTable) -> None:
        await table.write(change(projection(state="LIVENESS_EXPIRED")))
        assert await table.renew([renewal(seconds=5, deadline=100)]) == 0
        assert (await _stored(table)).liveness_deadline is None

    @promise
    async def test_a_change_does_not_move_a_renewed_deadline_back(self, table: RegistrationTable) -> None:
        row = projection(liveness_deadline=at(90), heartbeat_at=at(1))
        await table.write(change(row))
        await table.renew([renewal(seconds=5, deadline=100)])
        written = await table.write(change(row, 1, change_id="other/step"))
        assert (written.liveness_deadline, written.heartbeat_at) == (at(100), at(5))
        ended = await table.write(change(projection(state="LIVENESS_EXPIRED"), 2, change_id="last/step"))
        assert ended.liveness_deadline is None

    @promise
    async def test_an_unsettled_node_is_due_and_has_another_revision(self, table: RegistrationTable) -> None:
        await table.write(change(projection(consul_applied=True, postgres_applied=True)))
        await table.unsettle(node_id(), at(7))
        await table.unsettle(node_id(2), at(7))
        row = await _stored(table)
        assert (row.consul_applied, row.postgres_applied, row.retry_at) == (False, False, at(7))
        assert row.revision == 2
        assert await table.read(node_id(2)) is None
        with pytest.raises(RevisionConflict):
            await table.write(change(projection(), 1, change_id="other/step", may_follow="run/step"))

    # --- pages ------------------------------------------------------------------------------------

    @promise
    async def test_rows_are_listed_in_pages_in_the_order_of_their_ids(self, table: RegistrationTable) -> None:
        for number in (3, 1, 2):
            await table.write(change(projection(number), status="registered"))
        projections = [one.node_id for one in await table.projections(None, 2)]
        assert projections == [node_id(1), node_id(2)]
        assert [one.node_id for one in await table.projections(node_id(2), 2)] == [node_id(3)]
        assert [one.node.node_id for one in await table.registrations(None, 2)] == [node_id(1), node_id(2)]
        assert [one.node.node_id for one in await table.registrations(node_id(2), 2)] == [node_id(3)]
        assert await table.registrations(node_id(3), 2) == []

    @promise
    async def test_a_summary_counts_projections_by_state_and_has_the_oldest_deadline(
        self, table: RegistrationTable
    ) -> None:
        empty = await table.summary()
        assert (empty.states, empty.oldest_deadline) == ({}, None)
        await table.write(change(projection(1, state="ACTIVE", liveness_deadline=at(90), retry_at=at(7))))
        await table.write(change(projection(2, state="ACTIVE", liveness_deadline=at(8))))
        await table.write(change(projection(3, state="REJECTED")))
        summary = await table.summary()
        assert (summary.states, summary.oldest_deadline) == ({"ACTIVE": 2, "REJECTED": 1}, at(7))
