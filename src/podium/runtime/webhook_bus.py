"""A webhook as a bus: each event is one signed request. An event that is sent again has the same id."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from podium.errors import PodiumError
from podium.hooks.signing import DELIVERY, SIGNATURE, TIME, signature_of
from podium.log.envelope import encode_envelope
from podium.log.events import EventRecord
from podium.ports.bus import BusUnavailable
from podium.ports.clock import Clock
from podium.ports.receivers import ReceiverFailed, Receivers
from podium.version import __version__

_PREFIX: Final = "webhook:"

# Called after every delivery, with the error message; empty if it succeeded.
Outcome = Callable[[str], Awaitable[None]]


def bus_name(webhook: str) -> str:
    return f"{_PREFIX}{webhook}"


class WebhookBus:
    """`secret` looks up the secret for each batch, because it may be replaced while this process runs.

    `batch`: after this time the rest of the events is left to another batch. A claim has to outlast what is done under
    it, and a receiver may be slow.
    """

    def __init__(
        self,
        name: str,
        tenant_id: str,
        url: str,
        secret: Callable[[], Awaitable[bytes]],
        receivers: Receivers,
        clock: Clock,
        outcome: Outcome,
        *,
        batch: timedelta,
    ) -> None:
        self.name = bus_name(name)
        self._tenant_id = tenant_id
        self._url = url
        self._secret = secret
        self._receivers = receivers
        self._clock = clock
        self._outcome = outcome
        self._batch = batch

    async def publish(self, records: Sequence[EventRecord]) -> int:
        """One event at a time, so that a receiver gets the events of a run in order."""
        count, until = 0, self._clock.elapsed() + self._batch.total_seconds()
        try:
            secret = await self._secret()
            for record in records:
                # A process of another version may deliver events of other tenants, too.
                if record.run.tenant_id == self._tenant_id:
                    await self._post(record, secret)
                count += 1
                if self._clock.elapsed() >= until:
                    break
        except ReceiverFailed as error:
            await self._outcome(str(error))
            if not count:
                raise error if error.is_content else BusUnavailable(str(error)) from error
        except PodiumError as error:
            # Its secret is missing, or its address is refused: no event is at fault.
            await self._outcome(str(error))
            if not count:
                raise BusUnavailable(str(error)) from error
        else:
            await self._outcome("")
        return count

    async def _post(self, record: EventRecord, secret: bytes) -> None:
        body = encode_envelope(record)
        time = str(int(self._clock.now().timestamp()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"podium/{__version__}",
            DELIVERY: record.event_id,
            TIME: time,
            SIGNATURE: signature_of(secret, record.event_id, time, body),
        }
        await self._receivers.post(self._url, headers, body)

    async def close(self) -> None:
        pass
