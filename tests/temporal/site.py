"""A site on a Temporal server, in a namespace of its own."""

from pathlib import Path
from uuid import uuid4

from services.temporal import TemporalServer
from tests.engines import site


class Site(site.Site):
    altered_worker = "tests.temporal.altered_worker"

    def __init__(self, folder: Path, server: TemporalServer, store: str | None = None) -> None:
        super().__init__(folder, store)
        self.server = server
        self.namespace = f"test-{uuid4().hex[:12]}"
        server.create_namespace(self.namespace)

    @property
    def place(self) -> list[str]:
        where = ["--address", self.server.address, "--namespace", self.namespace, "--queue", "tests"]
        return ["--engine", "temporal", *where]
