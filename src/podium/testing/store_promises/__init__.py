"""What every store promises. A store passes when a subclass of each class below passes with its `world`.

    class TestMyStore(StorePromises):
        @pytest.fixture
        async def world(self): ...

`world.store` is the store; `world.other` is a second handle on the same data, as another process would have it (a
store in memory has none and gives itself); `world.pass_time(seconds)` lets time pass as the store measures it.
Tests are plain functions driven by `run`, so that no plugin is needed.
"""

from podium.testing.store_promises.admission import AdmissionPromises
from podium.testing.store_promises.appending import AppendingPromises
from podium.testing.store_promises.attempts import AttemptPromises
from podium.testing.store_promises.audit import AuditPromises
from podium.testing.store_promises.checkpoints import CheckpointPromises
from podium.testing.store_promises.contents import ContentPromises
from podium.testing.store_promises.endpoints import EndpointPromises
from podium.testing.store_promises.feed import FeedPromises
from podium.testing.store_promises.fleet import FleetPromises
from podium.testing.store_promises.hostile_text import HostileTextPromises
from podium.testing.store_promises.identity import IdentityPromises
from podium.testing.store_promises.leases import LeasePromises
from podium.testing.store_promises.listing import ListingPromises
from podium.testing.store_promises.outbox import OutboxPromises
from podium.testing.store_promises.pools import PoolPromises
from podium.testing.store_promises.pruning import PruningPromises
from podium.testing.store_promises.published_plans import PublishedPlanPromises
from podium.testing.store_promises.queue import QueuePromises
from podium.testing.store_promises.reading import ReadingPromises
from podium.testing.store_promises.refusing import RefusingPromises
from podium.testing.store_promises.schedules import SchedulePromises
from podium.testing.store_promises.sessions import SessionPromises, TenantStatePromises
from podium.testing.store_promises.snapshots import SnapshotPromises
from podium.testing.store_promises.taking_over import TakingOverPromises
from podium.testing.store_promises.tenants import TenantPromises
from podium.testing.store_promises.timers import TimerPromises
from podium.testing.store_promises.tokens import TokenPromises
from podium.testing.store_promises.world import R1, TTL, World, started, types_in

__all__ = [
    "R1",
    "TTL",
    "AdmissionPromises",
    "AppendingPromises",
    "AttemptPromises",
    "AuditPromises",
    "CheckpointPromises",
    "ContentPromises",
    "EndpointPromises",
    "FeedPromises",
    "FleetPromises",
    "HostileTextPromises",
    "IdentityPromises",
    "LeasePromises",
    "ListingPromises",
    "LogPromises",
    "OutboxPromises",
    "PoolPromises",
    "PruningPromises",
    "PublishedPlanPromises",
    "QueuePromises",
    "ReadingPromises",
    "RefusingPromises",
    "SchedulePromises",
    "SessionPromises",
    "SnapshotPromises",
    "StorePromises",
    "TakingOverPromises",
    "TenantPromises",
    "TenantStatePromises",
    "TimerPromises",
    "TokenPromises",
    "World",
    "started",
    "types_in",
]


class LogPromises(AdmissionPromises, AppendingPromises, RefusingPromises, ReadingPromises):
    """Appending and reading."""


class StorePromises(
    LogPromises,
    HostileTextPromises,
    TenantPromises,
    ListingPromises,
    FeedPromises,
    IdentityPromises,
    LeasePromises,
    TakingOverPromises,
    AttemptPromises,
    QueuePromises,
    PoolPromises,
    FleetPromises,
    TimerPromises,
    SnapshotPromises,
    CheckpointPromises,
    OutboxPromises,
    PruningPromises,
    ContentPromises,
    AuditPromises,
    SchedulePromises,
    EndpointPromises,
    PublishedPlanPromises,
    TokenPromises,
    SessionPromises,
    TenantStatePromises,
):
    """All of them."""
