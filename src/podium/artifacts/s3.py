"""Artifacts in an object store that supports S3: Amazon's, or any other at its own endpoint.

An artifact is the object `prefix/ab/cdef...`, under the SHA-256 of its content. S3 writes an object
completely or not at all, so there is nothing to rename; but its name is known only after its last byte. The
content is therefore collected in a temporary file first (in memory while it is small) and then sent.

An object that exists already, and was written within the last few minutes, is not sent again. An older one
is: that is the only portable way to renew it, and a sweep must not remove for its age what was just put. It
is replaced by the same bytes, atomically.

One race remains that the local store prevents with a lock: S3 cannot remove an object on condition that it is
old. Between the check and the removal there are milliseconds; a sweep leaves an hour.

Interrupted uploads of large objects leave invisible parts that cost money. Let the bucket remove them: a
lifecycle rule `AbortIncompleteMultipartUpload` of one day.
"""

import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from podium.artifacts.content import address_of, in_blocks, is_sha256, not_found, verified
from podium.artifacts.s3_segments import S3Segments
from podium.artifacts.threads import in_thread
from podium.log.artifacts import ArtifactRef
from podium.log.times import Timestamp
from podium.ports.artifacts import ArtifactStoreUnavailable, StoredArtifact
from podium.text import reason_of

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, RetryConfig, S3Config

# obstore raises the first; its documentation names the second.
_NOT_FOUND: Final = (FileNotFoundError, NotFoundError)
_IN_MEMORY_BYTES: Final = 8 << 20
# S3 accepts at most 10,000 parts, so an artifact may have 160 GB.
_PART_BYTES: Final = 16 << 20
_READ_BYTES: Final = 8 << 20
_MAX_MESSAGE: Final = 300
_ANSWER: Final = re.compile(r"<Code>(?P<code>\w+)</Code>\s*<Message>(?P<message>[^<]*)</Message>")
# Queried for the role of a machine when there are no other credentials.
_ROLE_SERVICE: Final = "http://169.254.169.254/"
_DELETE_BATCH: Final = 1000
# Written to check whether writing is allowed; no artifact has such a name.
_CHECK: Final = "podium-write-check"


class S3Artifacts:
    """An `ArtifactStore` in a bucket, which has to exist.

    What is not given is taken from the usual AWS variables or from the machine's role.
    """

    def __init__(
        self,
        bucket: str,
        *,
        prefix: str = "artifacts",
        endpoint: str | None = None,
        region: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        session_token: str | None = None,
        renew_after: timedelta = timedelta(minutes=5),
    ) -> None:
        self._bucket = bucket
        self._prefix = prefix.strip("/")
        self._renew_after = renew_after
        self._where = f"s3://{bucket}/{self._prefix}".rstrip("/")
        endpoint = (
            endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None
        )
        given = {
            "endpoint": endpoint,
            "region": region,
            "access_key_id": access_key_id,
            "secret_access_key": secret_access_key,
            "session_token": session_token,
        }
        config: S3Config = {key: value for key, value in given.items() if value is not None}  # type: ignore[assignment]
        # Without encryption only if the operator requested it by the address.
        client: ClientConfig = {"allow_http": (endpoint or "").startswith("http://")}
        # A few quick retries for a lost connection; later retries are up to the runtime.
        retry: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
        self._store = S3Store(bucket, config=config, client_options=client, retry_config=retry)

    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, *, kind: str, expires_at: Timestamp | None = None
    ) -> ArtifactRef:
        digest, size = sha256(), 0
        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as gathered:
            async for block in in_blocks(chunks):
                await _gather(block, gathered)
                digest.update(block)
                size += len(block)
            name = digest.hexdigest()
            with self._asking():
                if not await self._is_young(name, size):
                    await self._send(name, gathered)
        return ArtifactRef(f"s3://{self._bucket}/{self._key_of(name)}", kind, name, size, expires_at)

    async def open(self, ref: ArtifactRef) -> AsyncIterator[bytes]:
        name = address_of(ref)
        found = await self._look(name)
        if found is None:
            raise not_found(ref, self._where)
        return verified(self._blocks(ref, name, found["size"]), ref, self._where)

    async def read(self, ref: ArtifactRef) -> bytes:
        return b"".join([block async for block in await self.open(ref)])

    async def exists(self, ref: ArtifactRef) -> bool:
        if ref.sha256 is None or not is_sha256(ref.sha256):
            return False
        return await self._look(ref.sha256) is not None

    async def delete(self, sha256: str, *, unless_modified_since: datetime | None = None) -> bool:
        found = await self._look(sha256) if is_sha256(sha256) else None
        if found is None or (
            unless_modified_since is not None and found["last_modified"] >= unless_modified_since
        ):
            return False
        with self._asking():
            await obstore.delete_async(self._store, self._key_of(sha256))
        return True

    async def list(self) -> AsyncIterator[StoredArtifact]:
        with self._asking():
            async for page in obstore.list(self._store, prefix=self._prefix or None):
                for found in page:
                    name = found["path"].removeprefix(f"{self._prefix}/").replace("/", "", 1)
                    if is_sha256(name):
                        yield StoredArtifact(name, found["size"], found["last_modified"])

    def segments(self) -> S3Segments:
        """Below the same prefix."""
        return S3Segments(self._store, self._prefix, _NOT_FOUND, self._asking)

    async def delete_all(self) -> None:
        """Delete everything below the prefix, whatever its name."""
        assert self._prefix, "a whole bucket is never emptied"
        paths: list[str] = []
        with self._asking():
            async for page in obstore.list(self._store, prefix=self._prefix):
                paths += [found["path"] for found in page]
            for start in range(0, len(paths), _DELETE_BATCH):
                await obstore.delete_async(self._store, paths[start : start + _DELETE_BATCH])

    def check(self) -> None:
        """Raises `ArtifactStoreUnavailable` if nothing can be written here at present. Blocks."""
        with self._asking():
            obstore.put(self._store, f"{self._prefix}/{_CHECK}".lstrip("/"), b"")

    # --- requests --------------------------------------------------------------------------------

    async def _is_young(self, name: str, size: int) -> bool:
        found = await self._look(name)
        if found is None or found["size"] != size:
            return False
        return datetime.now(UTC) - found["last_modified"] < self._renew_after

    async def _send(self, name: str, gathered: IO[bytes]) -> None:
        gathered.seek(0)
        await obstore.put_async(self._store, self._key_of(name), gathered, chunk_size=_PART_BYTES)

    async def _look(self, name: str) -> "ObjectMeta | None":
        with self._asking():
            try:
                return await obstore.head_async(self._store, self._key_of(name))
            except _NOT_FOUND:
                return None

    async def _blocks(self, ref: ArtifactRef, name: str, size: int) -> AsyncIterator[bytes]:
        # A request for each: a single one would run into its timeout, and a slow reader would keep it open.
        for start in range(0, size, _READ_BYTES):
            with self._asking():
                try:
                    block = await obstore.get_range_async(
                        self._store, self._key_of(name), start=start, end=min(start + _READ_BYTES, size)
                    )
                except _NOT_FOUND:
                    raise not_found(ref, self._where) from None
            yield bytes(block)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise ArtifactStoreUnavailable(
                f"artifacts in {self._where} cannot be read or written: {_answer_in(error)}. Nothing was acknowledged. "
                "Check that the bucket is there, its address and the credentials, then try again."
            ) from error

    def _key_of(self, name: str) -> str:
        return f"{self._prefix}/{name[:2]}/{name[2:]}".lstrip("/")


def _answer_in(error: Exception) -> str:
    """The server's message, but not its whole answer, which contains the id of the key that signed the
    request.
    """
    text = reason_of(error)
    if _ROLE_SERVICE in text:
        return "no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, and the machine has no role"
    if found := _ANSWER.search(text):
        return f"{found['code']}: {found['message'].rstrip('. ')}"[:_MAX_MESSAGE]
    return text.partition("\n")[0].partition("<")[0].rstrip(":. ")[:_MAX_MESSAGE]


async def _gather(block: bytes, gathered: IO[bytes]) -> None:
    try:
        await in_thread(gathered.write, block)
    except OSError as error:
        raise ArtifactStoreUnavailable(
            f"an artifact cannot be gathered in {tempfile.gettempdir()} before it is sent: {error.strerror}. "
            "Nothing was acknowledged. Free space there or set TMPDIR to another folder, then try again."
        ) from error
