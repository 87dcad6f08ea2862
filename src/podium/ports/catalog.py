"""Registration of nodes: a service catalog, where other systems look up addresses, and a table with two
parts.

The table has a row for other systems (`Registration`) and one for decisions (`Projection`). Both change in
one transaction, conditional on the revision that was read. Every method may be called again with the same
arguments after a crash.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Annotated, Literal, Protocol, TypeAlias
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
)
from pydantic_core import PydanticSerializationError

from podium.errors import PodiumError

NodeType: TypeAlias = Literal["effect", "compute", "reducer", "orchestrator"]
# Limits for metadata in a catalog: Consul's.
MAX_META: int = 64
MAX_META_KEY: int = 128
MAX_META_VALUE: int = 512


class CatalogUnavailable(PodiumError, ConnectionError):
    """A catalog cannot be reached, or failed to answer; the same call may succeed later."""

    code = "CATALOG_UNAVAILABLE"


class CatalogRefused(PodiumError):
    """A catalog rejects the credentials, or the arguments; the same call will fail again."""

    code = "CATALOG_REFUSED"


class CatalogVersion(PodiumError):
    """The tables were created by a newer Podium, or by another program."""

    code = "CATALOG_VERSION"


class RevisionConflict(PodiumError):
    """The projection has changed since it was read."""

    code = "REVISION_CONFLICT"


def _is_short(limit: int) -> AfterValidator:
    def check(text: str) -> str:
        if len(text.encode()) > limit:
            raise ValueError(f"longer than {limit} bytes")
        return text

    return AfterValidator(check)


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _is_encodable(text: str) -> str:
    text.encode()
    return text


def _is_not_reserved(key: str) -> str:
    if key.startswith("consul-"):
        raise ValueError("keys that start with 'consul-' are reserved")
    return key


MetaKey: TypeAlias = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=MAX_META_KEY), AfterValidator(_is_not_reserved)
]


class Service(Record):
    """The service catalog's entry of a node."""

    node_id: UUID
    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    tags: tuple[Annotated[str, AfterValidator(_is_encodable)], ...] = ()
    meta: Annotated[dict[MetaKey, Annotated[str, _is_short(MAX_META_VALUE)]], Field(max_length=MAX_META)] = {}


def checked_service(service: Service) -> Service:
    """Raises `CatalogRefused` for an entry that no catalog may have, however it was made.

    Called before it is sent: Consul accepts malformed names, and reports invalid metadata as a server
    failure.
    """
    try:
        return Service.model_validate(service.model_dump())
    except (ValidationError, PydanticSerializationError, UnicodeEncodeError):
        raise CatalogRefused("a service has a name, tag or metadata that no catalog accepts") from None


class NodeDescription(Record):
    """What a node reported about itself."""

    node_id: UUID
    node_type: NodeType
    node_version: str
    capabilities: dict[str, JsonValue] = {}
    endpoints: dict[str, str] = {}
    node_role: str | None = None
    metadata: dict[str, JsonValue] = {}
    correlation_id: UUID
    network_id: str | None = None
    deployment_id: str | None = None
    epoch: int | None = Field(default=None, ge=0, lt=2**63)
    timestamp: AwareDatetime


class Registration(Record):
    """The row that other systems read."""

    node: NodeDescription
    # A row is kept after its node has expired or was rejected.
    status: Literal["registered", "retired"]


class Projection(Record):
    """The row that decisions are based on."""

    node: NodeDescription
    state: str
    # Incremented with each change; 0 before the first.
    revision: int = Field(default=0, ge=0)
    # Whether each side has applied what the state requires (registered, or removed).
    consul_applied: bool = False
    postgres_applied: bool = False
    # The newest timestamp of an introspection with this content.
    seen_at: AwareDatetime
    # When a side was last asked to apply it.
    applied_at: AwareDatetime | None = None
    ack_deadline: AwareDatetime | None = None
    liveness_deadline: AwareDatetime | None = None
    retry_at: AwareDatetime | None = None
    # The timestamp of the newest heartbeat.
    heartbeat_at: AwareDatetime | None = None

    @property
    def node_id(self) -> UUID:
        return self.node.node_id

    @property
    def due_at(self) -> datetime | None:
        deadlines = (self.ack_deadline, self.liveness_deadline, self.retry_at)
        return min((one for one in deadlines if one is not None), default=None)


class TableChange(Record):
    """A change of one node's rows."""

    # If the same change is made again, the stored result is returned and nothing changes.
    change_id: str = Field(min_length=1, max_length=500)
    projection: Projection
    # The revision that was read; 0 if there was no projection.
    expected_revision: int = Field(ge=0)
    # A change that may have been stored since then although its caller saw an error.
    may_follow: str | None = None
    # None: the row for other systems does not change. `retired`: it is marked if it exists, and its content
    # is kept.
    registration: Registration | None = None


class DueNode(Record):
    node_id: UUID
    deadline: AwareDatetime


class Renewal(Record):
    """A heartbeat, and the new deadline derived from it."""

    node_id: UUID
    epoch: int = Field(ge=0)
    timestamp: AwareDatetime
    deadline: AwareDatetime


class TableSummary(Record):
    # Number of projections by state.
    states: dict[str, int] = {}
    oldest_deadline: AwareDatetime | None = None


class ServiceCatalog(Protocol):
    """Raises `CatalogUnavailable` and `CatalogRefused`; their texts contain no values and no part of an
    answer.
    """

    async def register(self, service: Service) -> None:
        """Add the service, or replace the one with its node id."""
        ...

    async def deregister(self, node_id: UUID) -> None:
        """Also succeeds if it does not exist."""
        ...

    def services(self) -> AsyncIterator[Sequence[Service]]:
        """All services in pages, ordered by node id, in memory that does not grow with their number.

        Raises instead of ending early, because callers treat everything that is not listed as absent.
        """
        ...

    async def close(self) -> None: ...


class ProtocolProjectionReader(Protocol):
    """Raises `CatalogUnavailable` and `CatalogRefused`; their texts contain no values."""

    async def read(self, node_id: UUID) -> Projection | None: ...


class RegistrationTable(ProtocolProjectionReader, Protocol):
    """Raises `CatalogUnavailable` and `CatalogRefused`; their texts contain no values."""

    async def write(self, change: TableChange) -> Projection:
        """Store both rows or neither; returns the projection with its new revision. Raises
        `RevisionConflict`.

        The liveness deadline of a node that is still in the same state is never moved back: it may have been
        renewed since the projection was read.
        """
        ...

    async def unsettle(self, node_id: UUID, retry_at: datetime) -> None:
        """Both sides have to be applied again: for a caller that acted and whose change was then refused."""
        ...

    async def due(self, now: datetime, limit: int, after: DueNode | None = None) -> list[DueNode]:
        """Nodes with a deadline at or before `now`, oldest deadline first; `after`: continue after this one."""
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> int:
        """Renew nodes that have a liveness deadline, in one statement; returns the number of nodes.

        Ignores an older epoch, a timestamp that is not newer than the last heartbeat, and a deadline that is
        not later. Of several renewals of a node the one with the latest deadline counts. The revision does
        not change.
        """
        ...

    async def summary(self) -> TableSummary: ...

    async def registrations(self, after: UUID | None, limit: int) -> list[Registration]:
        """A page of the rows for other systems, ordered by node id."""
        ...

    async def projections(self, after: UUID | None, limit: int) -> list[Projection]:
        """A page of the projections, ordered by node id."""
        ...

    async def close(self) -> None: ...
