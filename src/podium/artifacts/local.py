"""Artifacts in a folder of this machine.

    root/ab/cdef...     an artifact, under the SHA-256 of its content, its first two digits as a folder
    root/temporary/     files being written; in the same file system, so that they can be linked atomically
    root/lock           shared by processes that create names, exclusive for a process that removes files

The order of a `put` makes it safe, and each step depends on the previous one:

1. The content is written to a temporary file and synced. Whatever gets a final name is complete, even after a
   power failure.
2. It gets its final name by a hard link, which never replaces another file.
3. The folder is synced, and its parent if the folder may be new. Only now is the artifact acknowledged.

If the content exists already, the existing file is kept, after it was read and found intact: a damaged one is
replaced by the good copy. Its folder is synced nevertheless, since the process that created it may not have
done that yet. The lock prevents one race: nothing may be removed because of its age while a `put` renews it.

The URI is `sha256:<hex>` and contains no path: a store can be moved, mounted elsewhere or copied to another
machine, and all references in the logs remain valid.

Several processes may use one folder concurrently. What a process left in `temporary` when it died is removed
by the next one that starts, once nothing was written to it for an hour. Age decides, and not the owner's
process id: on a volume shared by containers the ids of other processes mean nothing here. If a live writer
has paused for that long, its `put` fails and can be repeated; nothing acknowledged is ever in that folder.
"""

import errno
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final, ParamSpec, TypeVar

from podium.artifacts.content import BLOCK_BYTES, address_of, in_blocks, is_sha256, not_found, verified
from podium.artifacts.files import FileSystem, RealFiles
from podium.artifacts.threads import in_thread
from podium.log.artifacts import ArtifactRef
from podium.log.times import Timestamp
from podium.ports.artifacts import ArtifactStoreUnavailable, StoredArtifact

P = ParamSpec("P")
T = TypeVar("T")

_LEFT_BEHIND: Final = timedelta(hours=1)
_FOLDER_DIGITS: Final = 2

_WHAT_TO_DO: Final = {
    errno.ENOSPC: "Free space there (`podium prune` removes old runs), then try again.",
    errno.EDQUOT: "Free space there or raise the quota, then try again.",
    errno.EACCES: "Let the user that runs Podium read and write there, then try again.",
    errno.EROFS: "Mount it for writing, then try again.",
}
_ELSE: Final = "Check the disk and the system log, then try again."


class LocalArtifacts:
    """An `ArtifactStore` in the folder `root`, which is created if it does not exist."""

    def __init__(self, root: Path, files: FileSystem | None = None) -> None:
        self._root = root.absolute()
        self._temporary = self._root / "temporary"
        self._lock = self._root / "lock"
        self._files = files or RealFiles()
        # Folders whose own names are known to be durable.
        self._durable: set[Path] = set()
        try:
            self._prepare()
        except OSError as error:
            raise self._unavailable(error) from error

    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, *, kind: str, expires_at: Timestamp | None = None
    ) -> ArtifactRef:
        draft = _Draft(self._files, self._temporary / token_hex(16))
        try:
            await self._do(draft.begin)
            async for block in in_blocks(chunks):
                await self._do(draft.add, block)
            name = await self._do(self._publish, draft)
        finally:
            await in_thread(draft.discard)
        return ArtifactRef(f"sha256:{name}", kind, name, draft.size, expires_at)

    async def open(self, ref: ArtifactRef) -> AsyncIterator[bytes]:
        path = self._path_of(address_of(ref))
        await self._do_with(ref, self._files.look, path)
        return verified(self._blocks(ref, path), ref, str(self._root))

    async def read(self, ref: ArtifactRef) -> bytes:
        return b"".join([block async for block in await self.open(ref)])

    async def exists(self, ref: ArtifactRef) -> bool:
        if ref.sha256 is None or not is_sha256(ref.sha256):
            return False
        return await self._do(self._modified, ref.sha256) is not None

    async def delete(self, sha256: str, *, unless_modified_since: datetime | None = None) -> bool:
        if not is_sha256(sha256):
            return False
        return await self._do(self._delete, sha256, unless_modified_since)

    async def list(self) -> AsyncIterator[StoredArtifact]:
        for folder in sorted(await self._do(self._files.names, self._root)):
            if len(folder) == _FOLDER_DIGITS:
                for stored in await self._do(self._in_folder, folder):
                    yield stored

    # --- in a thread -----------------------------------------------------------------------------

    def _prepare(self) -> None:
        for directory in (*reversed(self._root.parents), self._root, self._temporary):
            self._files.make_directory(directory)
        for directory in self._root.parents:
            # All of them: another process that is starting may have created some and not synced them yet. A
            # folder that we cannot read was not created by us.
            with suppress(PermissionError):
                self._files.sync_directory(directory)
        self._remove_what_the_dead_left()

    def _remove_what_the_dead_left(self) -> None:
        recently = datetime.now(UTC) - _LEFT_BEHIND
        for name in self._files.names(self._temporary):
            path = self._temporary / name
            with suppress(FileNotFoundError):  # its writer, or another starting process, was faster
                if self._files.look(path).modified < recently:
                    self._files.remove(path)

    def _publish(self, draft: "_Draft") -> str:
        draft.finish()
        path = self._path_of(draft.name)
        self._make_durable(path.parent)
        with self._files.lock(self._lock, alone=False):
            try:
                self._files.link(draft.path, path)
            except FileExistsError:
                if self._is_intact(path, draft.name):
                    self._files.touch(path)
                else:
                    self._files.replace(draft.path, path)
        self._files.sync_directory(path.parent)
        return draft.name

    def _make_durable(self, folder: Path) -> None:
        if self._files.make_directory(folder) or folder not in self._durable:
            self._files.sync_directory(self._root)
            self._durable.add(folder)

    def _is_intact(self, path: Path, name: str) -> bool:
        digest, at = sha256(), 0
        while block := self._files.read(path, at, BLOCK_BYTES):
            digest.update(block)
            at += len(block)
        return digest.hexdigest() == name

    def _delete(self, name: str, unless_modified_since: datetime | None) -> bool:
        with self._files.lock(self._lock, alone=True):
            modified = self._modified(name)
            if modified is None or (unless_modified_since is not None and modified >= unless_modified_since):
                return False
            # Not synced: if it reappears after a power failure, the next sweep removes it.
            self._files.remove(self._path_of(name))
            return True

    def _modified(self, name: str) -> datetime | None:
        try:
            return self._files.look(self._path_of(name)).modified
        except FileNotFoundError:
            return None

    def _in_folder(self, folder: str) -> Sequence[StoredArtifact]:
        found = []
        for rest in self._files.names(self._root / folder):
            if is_sha256(folder + rest):
                with suppress(FileNotFoundError):  # removed by another process
                    found.append(StoredArtifact(folder + rest, *self._files.look(self._root / folder / rest)))
        return found

    # --- asynchronous part -----------------------------------------------------------------------

    async def _blocks(self, ref: ArtifactRef, path: Path) -> AsyncIterator[bytes]:
        # Opened again for each block: an artifact never changes, and an abandoned reader leaves nothing open.
        at = 0
        while block := await self._do_with(ref, self._files.read, path, at, BLOCK_BYTES):
            yield block
            at += len(block)

    async def _do(self, work: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
        try:
            return await in_thread(work, *args, **keywords)
        except OSError as error:
            raise self._unavailable(error) from error

    async def _do_with(
        self, ref: ArtifactRef, work: Callable[P, T], *args: P.args, **keywords: P.kwargs
    ) -> T:
        try:
            return await in_thread(work, *args, **keywords)
        except FileNotFoundError:
            raise not_found(ref, str(self._root)) from None
        except OSError as error:
            raise self._unavailable(error) from error

    def _path_of(self, name: str) -> Path:
        return self._root / name[:_FOLDER_DIGITS] / name[_FOLDER_DIGITS:]

    def _unavailable(self, error: OSError) -> ArtifactStoreUnavailable:
        what_to_do = _WHAT_TO_DO.get(error.errno or 0, _ELSE)
        return ArtifactStoreUnavailable(
            f"artifacts in {self._root} cannot be read or written: {error.strerror or error}. "
            f"Nothing was acknowledged. {what_to_do}"
        )


class _Draft:
    """An artifact that is being written."""

    def __init__(self, files: FileSystem, path: Path) -> None:
        self.path = path
        self.size = 0
        self._files = files
        self._digest = sha256()
        self._file: int | None = None

    @property
    def name(self) -> str:
        return self._digest.hexdigest()

    def begin(self) -> None:
        self._file = self._files.create(self.path)

    def add(self, block: bytes) -> None:
        assert self._file is not None
        self._files.write(self._file, block)
        self._digest.update(block)
        self.size += len(block)

    def finish(self) -> None:
        assert self._file is not None
        # Only once: after a failed sync the system discards what it could not write, and a second sync would
        # succeed.
        self._files.sync(self._file)

    def discard(self) -> None:
        """Leave nothing behind, whatever has happened; what cannot be removed now is removed at the next
        start.
        """
        if self._file is not None:
            with suppress(OSError):
                self._files.close(self._file)
            with suppress(OSError):
                self._files.remove(self.path)
