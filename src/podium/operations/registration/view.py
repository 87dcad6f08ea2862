"""Shows what a registration service does. No value of a message or of a catalog is ever shown."""

from podium.log.ids import RunId


class ServeView:
    """The default shows nothing."""

    def ready(self) -> None: ...

    def ended(self, run_id: RunId, event_type: str) -> None: ...

    def dead(self, topic: str, partition: int, offset: int, code: str) -> None: ...

    def alert(self, code: str, message: str) -> None: ...

    def trouble(self, subject: str, reason: str) -> None:
        """Something is away and is tried again; once for each time that it stops answering."""

    def back(self, subject: str) -> None: ...
