"""What goes wrong between Podium and the server of an engine."""

from podium.errors import PodiumError


class EngineUnavailable(PodiumError):
    """The server of an engine does not answer, or not as it should."""

    code = "ENGINE_UNAVAILABLE"


class EngineRefused(PodiumError):
    """The server of an engine does not accept this client, or a request of it."""

    code = "ENGINE_REFUSED"


class NoWorker(PodiumError):
    """A run would wait for ever: no worker serves its queue."""

    code = "NO_WORKER"
