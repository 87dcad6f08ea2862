"""Shows what a registration service does. Never shows a value of a message or of a catalog."""

from podium.log.ids import RunId


class ServeView:
    """The default does nothing."""

    def ready(self) -> None: ...

    def ended(self, run_id: RunId, event_type: str) -> None: ...

    def dead(self, topic: str, partition: int, offset: int, code: str) -> None: ...

    def alert(self, code: str, message: str) -> None: ...

    def trouble(self, subject: str, reason: str) -> None:
        """A service is unavailable and is retried; called once per outage."""

    def back(self, subject: str) -> None: ...
