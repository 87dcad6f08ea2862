"""Whatever one does with it, the store in PostgreSQL answers like the store in memory.

The calls and the comparison are those of the SQLite store. What differs here: the server's clock cannot be moved, so
deadlines are moved instead; moments that a store sets by itself, and where a page begins, are not compared.
"""

from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from podium.log.runs import RunQuery
from podium.log.transitions import RunStatus
from podium.stores.memory import MemoryStore
from podium.stores.postgres import PostgresStore
from podium.testing.clock import VirtualClock
from tests.promises.postgres.world import PostgresWorld
from tests.promises.sqlite.test_stateful import PICK, RUNS, TTLS, SameAnswers

# A second of the model is a quarter of an hour of the server, so that a slow machine lets no lease lapse by itself.
_SLOWER = 900
_NOT_COMPARED = {"created_at", "updated_at", "persisted_at", "expires_at", "died_at", "next_at", "cursor"}


class SameAnswersFromPostgres(SameAnswers):
    # Of several tenants it takes as many as fit, and so in another order than one by one.
    _max_claimed = 1

    def __init__(self, world: PostgresWorld) -> None:
        RuleBasedStateMachine.__init__(self)
        world.empty()
        self._world = world
        self._clock = VirtualClock()
        self._clock.jump((datetime.now(UTC) - self._clock.now()).total_seconds())
        self._model = MemoryStore(self._clock)
        self._store: Any = world.store
        self._leases = []
        self._claims = []

    def teardown(self) -> None:
        pass  # the world is closed by its fixture

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._world.run(coroutine)

    def _both(self, call: str, *args: Any, of: str = "", **kwargs: Any) -> Any:
        answers = []
        for store, pace in ((self._model, 1), (self._store, _SLOWER)):
            target = getattr(store, of) if of else store
            paced = {
                name: value * pace if isinstance(value, timedelta) else value
                for name, value in kwargs.items()
            }
            answers.append(self._answer(getattr(target, call)(*args, **paced)))
        assert _comparable(answers[0]) == _comparable(answers[1]), call
        refused = isinstance(answers[0], tuple) and answers[0][:1] == ("refused",)
        return None if refused else answers[0]

    @rule(
        tenant=st.sampled_from(["a", "b"]),
        statuses=st.frozensets(st.sampled_from(RunStatus), max_size=3),
        limit=st.integers(1, 3),
        run_id=RUNS,
    )
    def tenants(self, tenant: str, statuses: frozenset[RunStatus], limit: int, run_id: str) -> None:
        first = RunQuery(statuses=statuses, limit=limit)
        pages = [self._run(store.runs.page(tenant, first)) for store in (self._model, self._store)]
        assert _comparable(pages[0]) == _comparable(pages[1])
        assert (pages[0].cursor is None) == (pages[1].cursor is None)
        if pages[0].cursor is not None:
            pages = [
                self._run(store.runs.page(tenant, msgspec.structs.replace(first, cursor=page.cursor)))
                for store, page in zip((self._model, self._store), pages, strict=True)
            ]
            assert _comparable(pages[0]) == _comparable(pages[1])
        self._both("find", tenant, run_id, of="runs")

    @rule(pick=PICK, ttl=TTLS)
    def renew(self, pick: int, ttl: timedelta) -> None:
        lease = self._lease(pick)
        if lease is None:
            return
        # The model renews a lapsed lease whatever the limits say; PostgreSQL wants room for it (G47).
        kept = self._model._runs.get(lease.run_id)
        if kept is not None and self._model._is_live(kept, lease.fence.attempt):
            self._both("renew", lease, ttl=ttl)

    @rule(seconds=st.sampled_from([1, 11, 31]))
    def pass_time(self, seconds: int) -> None:
        self._clock.move(seconds)
        self._world.pass_time(seconds * _SLOWER)

    def jump(self, seconds: int) -> None:
        """No rule here: the wall clock of the server is the one that counts."""

    @rule()
    def reopen(self) -> None:
        self._run(self._world.store.close())
        opened = PostgresStore.open(self._world.conninfo, schema=self._world.schema)
        self._world.store = self._store = self._run(opened)


def _comparable(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        named = {name: getattr(value, name) for name in value.__struct_fields__ if name not in _NOT_COMPARED}
        return type(value), {name: _comparable(one) for name, one in named.items()}
    if isinstance(value, list | tuple):
        return [_comparable(one) for one in value]
    return value


def test_the_answers_are_those_of_the_model(world: PostgresWorld) -> None:
    class InThisWorld(SameAnswersFromPostgres):
        def __init__(self) -> None:
            super().__init__(world)

    bounded = settings(
        max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(InThisWorld, settings=bounded)
