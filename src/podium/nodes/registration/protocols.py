"""The parts of the registration workflow: a reducer that decides, effects that act.

They are defined together because one produces what the other consumes: the intents. Two more are ports: the
projection is read by `ProtocolProjectionReader`, and events are received and sent by `ProtocolEventBus`. No
node has access to the bus: what it publishes is first stored with the end of its step.

Thread safety. Implementations of both protocols are shared by everything that runs in a process:

- `ProtocolReducer`: one instance may reduce several events concurrently, in several threads. States are
  immutable: return a new one. Keep nothing in the instance that a call changes, not even a cache.
- `ProtocolEffect`: several tasks of one event loop may call `execute_intent` concurrently. Guard shared
  mutable state with `asyncio.Lock`, and never hold it while waiting for a service. The clients below have to
  be safe for tasks.

`NodeRegistrationOrchestrator` itself is not thread-safe: one instance serves one workflow at a time.
"""

from datetime import datetime
from typing import Protocol, runtime_checkable

from podium.nodes.intents import ModelConsulRegistrationIntent, ModelPostgresUpsertIntent
from podium.nodes.registration.models.model_intent_execution_result import ModelIntentExecutionResult
from podium.nodes.registration.models.model_orchestrator_input import RegistrationEvent
from podium.nodes.registration.models.model_reducer_state import ModelReducerState
from podium.ports.bus import MessageBus as ProtocolEventBus
from podium.ports.catalog import ProtocolProjectionReader

__all__ = ["ProtocolEffect", "ProtocolEventBus", "ProtocolProjectionReader", "ProtocolReducer"]


@runtime_checkable
class ProtocolReducer(Protocol):
    """Folds an event into the state of its node and returns what is to be done about it.

    Deterministic: the same arguments give the same result. Idempotent: repeating the event changes nothing.
    Pure: no input or output, no clock but `now`.
    """

    def reduce(
        self, state: ModelReducerState, event: RegistrationEvent, now: datetime
    ) -> tuple[ModelReducerState, tuple[ModelConsulRegistrationIntent | ModelPostgresUpsertIntent, ...]]: ...


@runtime_checkable
class ProtocolEffect(Protocol):
    """Executes an intent. Idempotent: an intent may be executed again after a crash.

    Raises an error with a code, which never contains any part of the intent.
    """

    async def execute_intent(
        self,
        intent: ModelConsulRegistrationIntent | ModelPostgresUpsertIntent,
        state: ModelReducerState,
        change_id: str,
    ) -> ModelIntentExecutionResult: ...
