"""Contents of runs in the memory store, each stored once."""

from collections.abc import Mapping

from podium.errors import ContentMissing
from podium.log.ids import RunId
from podium.ports.clock import Clock
from podium.ports.store import KeptContent
from podium.stores import rules, texts
from podium.stores.memory.state import KeptRun, MemoryState


class MemoryContents(MemoryState):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._contents: dict[bytes, bytes] = {}

    async def keep(self, run_id: RunId, contents: Mapping[str, bytes]) -> None:
        texts.check_contents(contents)
        self._keep(self._kept(run_id), contents)

    def _keep(self, kept: KeptRun, contents: Mapping[str, bytes]) -> None:
        for one in rules.contents_of(contents):
            self._contents.setdefault(one.sha256, one.content)
            kept.contents[one.name] = one.sha256
        self._remove_unused_contents()

    def _remove_unused_contents(self) -> None:
        used = {digest for kept in self._runs.values() for digest in kept.contents.values()}
        self._contents = {digest: content for digest, content in self._contents.items() if digest in used}

    async def kept(self, run_id: RunId, name: str) -> bytes:
        texts.check_name("the name of a content", name)
        digest = self._kept(run_id).contents.get(name)
        if digest is None:
            raise ContentMissing(run_id, name)
        return rules.checked_content(run_id, name, digest, self._contents[digest])

    async def list_kept(self, run_id: RunId) -> list[KeptContent]:
        return [
            KeptContent(name, digest.hex(), len(self._contents[digest]))
            for name, digest in sorted(self._kept(run_id).contents.items())
        ]
