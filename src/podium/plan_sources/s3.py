"""Plans in buckets. Endpoint, region and credentials come from the usual AWS variables, or from the machine's role.

The endpoint is the operator's, not the URI's, so that it may be inside a private network.
"""

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import S3Store

from podium.plan.locations import Location
from podium.plan_sources.decoding import decoded
from podium.ports.plan_source import PlanNotFound, PlanTooLarge, PlanUnavailable
from podium.text import reason_of

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_MAX_MESSAGE: Final = 300
_EXISTS: Final = (AlreadyExistsError, PreconditionError, FileExistsError)
_MISSING: Final = (NotFoundError, FileNotFoundError)


class S3Plans:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    async def fetch(self, location: Location) -> bytes:
        try:
            found = await obstore.get_async(_bucket(location), location.path[1:])
            if found.meta["size"] > self._max_bytes:
                raise PlanTooLarge(
                    f"{location.uri!r} has {found.meta['size']:,} bytes; no plan has more than {self._max_bytes:,}"
                )
            encoding = str(found.attributes.get("Content-Encoding", ""))
            return await decoded(_pieces(found), encoding, self._max_bytes, repr(location.uri))
        except _MISSING as error:
            raise PlanNotFound(location.uri) from error
        except (BaseError, OSError) as error:
            raise _failed("read", location, error) from error

    async def write_new(self, location: Location, content: bytes) -> bool:
        """False if there is an object with this name."""
        try:
            await obstore.put_async(
                _bucket(location), location.path[1:], content, mode="create", use_multipart=False
            )
        except _EXISTS:
            return False
        except (BaseError, OSError) as error:
            raise _failed("written", location, error) from error
        return True


async def _pieces(found: Any) -> AsyncIterator[bytes]:
    async for piece in found.stream():
        yield bytes(piece)


def _bucket(location: Location) -> S3Store:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    # Without encryption only if the operator requested it by the address.
    client: ClientConfig = {"allow_http": endpoint.startswith("http://")}
    retry: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
    if endpoint:
        return S3Store(location.place, endpoint=endpoint, client_options=client, retry_config=retry)
    return S3Store(location.place, client_options=client, retry_config=retry)


def _failed(what: str, location: Location, error: Exception) -> PlanUnavailable:
    reason = reason_of(error).partition("\n")[0][:_MAX_MESSAGE]
    return PlanUnavailable(
        f"the plan {location.uri!r} cannot be {what}: {reason}; check the bucket, its endpoint and the credentials"
    )
