"""The address of a Temporal server, and the client's credentials. Does not use the SDK: commands need this
before they need that.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from podium.engines.temporal import DEFAULT_ADDRESS, DEFAULT_NAMESPACE, DEFAULT_QUEUE


class Connection(msgspec.Struct, frozen=True):
    """The address of a server, and the client's credentials."""

    address: str = DEFAULT_ADDRESS
    namespace: str = DEFAULT_NAMESPACE
    queue: str = DEFAULT_QUEUE
    tls: bool = False
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_server_name: str | None = None
    api_key: str | None = None

    def __repr__(self) -> str:
        """Omits the key."""
        return f"Connection({self.address!r}, {self.namespace!r}, {self.queue!r})"

    def facts(self) -> dict[str, Any]:
        """What is stored with a run, so that others find the server; contains no secrets."""
        paths = {"tls_ca": self.tls_ca, "tls_cert": self.tls_cert, "tls_key": self.tls_key}
        kept = {name: str(path.absolute()) for name, path in paths.items() if path is not None}
        if self.tls_server_name is not None:
            kept["tls_server_name"] = self.tls_server_name
        return {
            "address": self.address,
            "namespace": self.namespace,
            "queue": self.queue,
            "tls": self.tls,
            **kept,
        }

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any], api_key: str | None) -> "Connection":
        """A connection to the server on which a run was started."""
        paths: dict[str, Any] = {
            name: Path(facts[name]) for name in ("tls_ca", "tls_cert", "tls_key") if name in facts
        }
        names = ("address", "namespace", "queue", "tls", "tls_server_name")
        given: dict[str, Any] = {name: facts[name] for name in names if name in facts}
        return cls(**given, **paths, api_key=api_key)

    def worker_command(self) -> str:
        return (
            f"podium worker --engine temporal --address {self.address} --namespace {self.namespace} "
            f"--queue {self.queue}{' --tls' if self.tls else ''}"
        )

    @property
    def place(self) -> str:
        return f"Temporal at {self.address}, namespace {self.namespace!r}"
