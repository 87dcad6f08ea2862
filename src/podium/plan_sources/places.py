"""All places of published plans behind one port. The rules are applied first: nothing is looked up for a
refused URI.
"""

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from podium.plan.locations import Location, PlanPlaces, locate
from podium.plan_sources.files import PlanFiles
from podium.ports.plan_source import MAX_PLAN_BYTES, PlanExists, PlanTooLarge, PlanUnavailable
from podium.runtime.extras import ExtraMissing, install_hint
from podium.text import shortened

if TYPE_CHECKING:
    from podium.plan_sources.http import HttpPlans
    from podium.plan_sources.s3 import S3Plans
    from podium.runtime.tasks.http_client import Resolve

# For a whole fetch, including redirects; also for publishing.
MAX_SECONDS: Final = 30.0


class PlacesOfPlans:
    """A `PlanSource` for the places that the configuration allows; `places` is called for each URI."""

    def __init__(
        self,
        places: Callable[[], PlanPlaces],
        *,
        max_bytes: int = MAX_PLAN_BYTES,
        max_seconds: float = MAX_SECONDS,
        resolve: "Resolve | None" = None,
        backend: Any = None,
    ) -> None:
        """`resolve`: returns the addresses of hosts; `backend`: connects to them. Both default to the
        system's.
        """
        self._places = places
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._resolve = resolve
        self._backend = backend

    def check(self, uri: str) -> None:
        locate(uri, self._places())

    async def fetch(self, uri: str) -> bytes:
        places = self._places()
        location = locate(uri, places)
        try:
            async with asyncio.timeout(self._max_seconds):
                return await self._fetch(location, places)
        except TimeoutError as error:
            raise self._too_slow(uri) from error

    async def publish(self, uri: str, content: bytes) -> bool:
        if len(content) > self._max_bytes:
            raise PlanTooLarge(
                f"the plan has {len(content):,} bytes; at most {self._max_bytes:,} are published"
            )
        places = self._places()
        location = locate(uri, places)
        try:
            async with asyncio.timeout(self._max_seconds):
                return await self._publish(location, places, content)
        except TimeoutError as error:
            raise self._too_slow(uri) from error

    async def _fetch(self, location: Location, places: PlanPlaces) -> bytes:
        match location.scheme:
            case "file":
                return await asyncio.to_thread(PlanFiles(places, self._max_bytes).fetch, location)
            case "s3":
                return await self._s3.fetch(location)
            case _:
                return await self._http.fetch(location, places)

    async def _publish(self, location: Location, places: PlanPlaces, content: bytes) -> bool:
        """False if the same plan exists. If two publish concurrently, one writes and the other compares."""
        match location.scheme:
            case "file":
                written = await asyncio.to_thread(
                    PlanFiles(places, self._max_bytes).write_new, location, content
                )
            case "s3":
                written = await self._s3.write_new(location, content)
            case _:
                written = await self._http.write_new(location, places, content)
        if not written and await self._fetch(location, places) != content:
            raise PlanExists(
                f"another plan was published at {shortened(location.uri, 200)!r}; it is left as it is. Publish to "
                "another URI, for instance one with the version in its name: runs that refer to this one need it"
            )
        return written

    def _too_slow(self, uri: str) -> PlanUnavailable:
        return PlanUnavailable(
            f"{shortened(uri, 200)!r} did not answer completely within {self._max_seconds:g} seconds; try again later"
        )

    @cached_property
    def _http(self) -> "HttpPlans":
        try:
            from podium.plan_sources.http import HttpPlans
        except ImportError as error:
            raise ExtraMissing(f"plans at https: {install_hint('http')}") from error
        return HttpPlans(self._max_bytes, self._resolve, self._backend)

    @cached_property
    def _s3(self) -> "S3Plans":
        try:
            from podium.plan_sources.s3 import S3Plans
        except ImportError as error:
            raise ExtraMissing(f"plans at s3: {install_hint('s3')}") from error
        return S3Plans(self._max_bytes)
