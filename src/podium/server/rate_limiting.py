"""Rate limits: one bucket for each token and cost, and one for each tenant and cost, in this process."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from podium.access.grants import Grant
from podium.access.rate_limits import RateLimits
from podium.access.sessions import credential_name
from podium.errors import PodiumError
from podium.ports.clock import Clock
from podium.ports.metrics import RATE_LIMITED
from podium.ports.telemetry import SILENT, Telemetry

# The least recently used bucket is discarded, because it is full by then.
_MAX_BUCKETS: Final = 20_000
_MINUTE: Final = 60.0


class RateLimited(PodiumError):
    """Too many requests with one token, or for one tenant."""

    code = "RATE_LIMITED"

    def __init__(self, whose: str, cost: str, rate: int, retry_after_seconds: int) -> None:
        super().__init__(
            f"the {whose} has had its {rate} requests a minute of the class {cost!r}; try again in "
            f"{retry_after_seconds} seconds"
        )
        self.retry_after_seconds = retry_after_seconds


class RateLimiter:
    """A bucket holds the allowed burst and refills evenly. `limits` is called for every request."""

    def __init__(self, clock: Clock, limits: Callable[[], RateLimits], telemetry: Telemetry = SILENT) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._limits = limits
        # The remaining amount, and its time.
        self._buckets: OrderedDict[tuple[str, str, str], tuple[float, float]] = OrderedDict()

    def check(self, grant: Grant, cost: str) -> None:
        """Raises `RateLimited`. A refused request takes nothing from any bucket."""
        limits, now = self._limits(), self._clock.elapsed()
        asked = (
            ("token", f"{grant.tenant_id}/{credential_name(grant.credential)}", limits.token[cost]),
            ("tenant", grant.tenant_id, limits.tenant[cost]),
        )
        left = [(kind, name, rate, self._left(kind, name, cost, rate, now)) for kind, name, rate in asked]
        for kind, _, rate, amount in left:
            if amount < 1:
                seconds = max(1, round((1 - amount) * _MINUTE / rate + 0.5))
                self._telemetry.count(RATE_LIMITED, kind, cost)
                raise RateLimited(kind, cost, rate, seconds)
        for kind, name, _, amount in left:
            self._keep((kind, name, cost), amount - 1, now)

    def _left(self, kind: str, name: str, cost: str, rate: int, now: float) -> float:
        burst = max(1.0, float(rate) / 6)
        amount, since = self._buckets.get((kind, name, cost), (burst, now))
        return min(burst, amount + (now - since) * rate / _MINUTE)

    def _keep(self, key: tuple[str, str, str], amount: float, now: float) -> None:
        self._buckets[key] = (amount, now)
        self._buckets.move_to_end(key)
        while len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
