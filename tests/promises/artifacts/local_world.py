"""A local store in a folder of its own, and ways to break it."""

import asyncio
from pathlib import Path

from podium.artifacts.local import LocalArtifacts
from podium.testing.artifact_promises import Change


class LocalWorld:
    def __init__(self, root: Path, kind: type[LocalArtifacts] = LocalArtifacts) -> None:
        self.root = root
        self.store = kind(root)
        self.other = kind(root)

    def path_of(self, name: str) -> Path:
        return self.root / name[:2] / name[2:]

    def damage(self, name: str, change: Change) -> None:
        path = self.path_of(name)
        path.write_bytes(change(path.read_bytes()))

    async def tick(self) -> None:
        # File systems count in ticks of the kernel, four to ten milliseconds each.
        await asyncio.sleep(0.05)
