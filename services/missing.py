"""A server that is not on this machine: the one thing every module here may have to say."""


class ServiceMissing(Exception):
    """A server cannot be started here. Tests that need it are skipped, by name; with CI=true they fail."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"{server}: {reason}")
        self.server = server
        self.reason = reason
