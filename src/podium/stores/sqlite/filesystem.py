"""Where a database may be located: on which file systems, and in a folder whose name is durable, too.

SQLite's write-ahead log needs memory shared by all processes that use the file, and reliable locks; a network
file system has neither. It would seem to work, and lose events.
"""

import os
import re
from pathlib import Path
from typing import Final

from podium.errors import StoreUnavailable
from podium.permissions import folder_mode

# fmt: off
_NETWORK: Final = frozenset({
    "9p", "afs", "ceph", "cifs", "coda", "davfs", "fuse.ceph", "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs",
    "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2",
    "orangefs", "smb3", "smbfs",
})
# fmt: on


def refuse_network(path: Path) -> None:
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    kind = file_system_of(path, mounts)
    if kind in _NETWORK:
        raise StoreUnavailable(
            f"{path} lies on a network file system ({kind}), where SQLite loses data; "
            "use a local disk, or PostgreSQL if several machines share the store"
        )


def file_system_of(path: Path, mounts: str) -> str:
    """The type of the file system that contains a path, by the text of /proc/mounts."""
    where = path.resolve()
    deepest, found = -1, ""
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        mounted = Path(_unescaped(point) if "\\" in point else point)
        # Of two mounts at one point the later one is visible.
        if where.is_relative_to(mounted) and len(mounted.parts) >= deepest:
            deepest, found = len(mounted.parts), kind
    return found


def _unescaped(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point)


def make_folder(folder: Path) -> None:
    """Create the folder durably: SQLite syncs the names in it, but not the folder's own name."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=folder_mode(), exist_ok=True)
    above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(above)
    finally:
        os.close(above)
