"""Errors between Podium and the server of an engine."""

from podium.errors import PodiumError


class EngineUnavailable(PodiumError):
    """The server of an engine does not answer, or not as expected."""

    code = "ENGINE_UNAVAILABLE"


class EngineRefused(PodiumError):
    """The server of an engine does not accept this client, or one of its requests."""

    code = "ENGINE_REFUSED"


class NoWorker(PodiumError):
    """A run would wait forever: no worker serves its queue."""

    code = "NO_WORKER"
