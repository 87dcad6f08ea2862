"""A site on a Conductor server, with a queue of its own."""

from pathlib import Path
from uuid import uuid4

from services.conductor import ConductorServer
from tests.engines import site


class Site(site.Site):
    altered_worker = "tests.conductor.altered_worker"

    def __init__(self, folder: Path, server: ConductorServer, store: str | None = None) -> None:
        super().__init__(folder, store)
        self.server = server
        self.queue = f"test-{uuid4().hex[:12]}"

    @property
    def place(self) -> list[str]:
        return ["--engine", "conductor", "--url", self.server.address, "--queue", self.queue]
