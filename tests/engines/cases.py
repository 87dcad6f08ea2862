"""A run under way whose end has to be what it is without any fault."""

from podium.testing.engine_promises import Scenario
from tests.engines.marks import Marks, check_run
from tests.engines.site import Site, until


class Case:
    """A run under way on a site, started by a real `podium run`."""

    def __init__(self, site: Site, body: str, run_id: str = "case-1") -> None:
        self.site = site
        self.run_id = run_id
        self.marks = Marks(site.folder, run_id)
        self.scenario = Scenario(run_id, self.marks.header + body)
        self.process = site.begin(self.scenario.workflow, run_id)

    def wait_for_work(self, visit: str, what: str = "begin") -> None:
        until(lambda: self.marks.count(what, visit), f"{visit} to {what}")

    def wait_for_event(self, event: str, seconds: float = 60) -> None:
        until(lambda: event in self.site.events_of(self.run_id), event, seconds)

    def finish(self, code: int = 0) -> None:
        """To its end, which has to be what it would have been without any fault."""
        assert self.process.wait() == code, (self.process.output, self._workers())
        self.check()

    def check(self) -> None:
        log = self.site.log_of(self.run_id)
        check_run(self.scenario, log, Marks(self.site.folder, self.run_id), self.site.workspace)

    def _workers(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in self.site.folder.glob("worker-*.log"))
