"""The subject of a run: one event of one node, as `{type, correlation_id, body}`."""

from typing import Annotated, Final, Literal, TypeAlias
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from podium.patterns import lazy_pattern
from podium.ports.catalog import NodeDescription

# What the most lenient reader takes for the server of an address, with the user before it: the scheme may be missing,
# and so may slashes.
_AUTHORITY: Final = lazy_pattern(r"(?:[^/\\?#@]*:)?[/\\]*([^/?#]*)")


class NodeIntrospectionEvent(NodeDescription):
    """A node describes itself."""

    @field_validator("endpoints")
    @classmethod
    def _without_credentials(cls, endpoints: dict[str, str]) -> dict[str, str]:
        # Refused before anything is stored: user names and passwords must not reach a log.
        if any("@" in _authority(url) for url in endpoints.values()):
            raise ValueError("an endpoint must not contain credentials")
        return endpoints


def _authority(url: str) -> str:
    found = _AUTHORITY.match(url)
    return found[1] if found is not None else url


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    node_id: UUID
    correlation_id: UUID


class RegistryRequestIntrospectionEvent(_Body):
    """Asks for a known node to be registered again from the projection."""

    timestamp: AwareDatetime


class NodeRegistrationAcked(_Body):
    """A node knows that it was accepted."""

    epoch: int | None = Field(default=None, ge=0, lt=2**63)
    timestamp: AwareDatetime


class NodeOverdue(_Body):
    """A tick found a deadline of this node that has passed; `now` is that of the tick."""

    now: AwareDatetime
    deadline: AwareDatetime


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    # Repeated here, so that every failure of the run contains it.
    correlation_id: UUID | None = None


class IntrospectionInput(_Event):
    type: Literal["NodeIntrospectionEvent"]
    body: NodeIntrospectionEvent


class RequestInput(_Event):
    type: Literal["RegistryRequestIntrospectionEvent"]
    body: RegistryRequestIntrospectionEvent


class AckInput(_Event):
    type: Literal["NodeRegistrationAcked"]
    body: NodeRegistrationAcked


class TickInput(_Event):
    type: Literal["RuntimeTick"]
    body: NodeOverdue


ModelOrchestratorInput: TypeAlias = Annotated[
    IntrospectionInput | RequestInput | AckInput | TickInput, Field(discriminator="type")
]
# The events that the reducer folds.
RegistrationEvent: TypeAlias = (
    NodeIntrospectionEvent | RegistryRequestIntrospectionEvent | NodeRegistrationAcked | NodeOverdue
)
