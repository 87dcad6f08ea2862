"""Who asks, and how that is known. A name without a method is only a claim."""

from enum import StrEnum

import msgspec


class Method(StrEnum):
    """How an actor is known."""

    # The user that the process runs as.
    OS_USER = "os-user"
    # A token whose SHA-256 the configuration lists, or the store has.
    TOKEN = "token"
    # A token or a login of the identity provider of the configuration.
    OIDC = "oidc"
    # A program that uses Podium as a library says so.
    PROGRAM = "program"
    # Only in the log of a run: the owner of the file `.cancel`, and another run, by its rules about concurrency.
    FILE = "file"
    RUN = "run"
    # A schedule: what it starts and cancels was decided by the person who defined it.
    SCHEDULE = "schedule"
    # And a hook, of which a delivery was signed.
    HOOK = "hook"


class Actor(msgspec.Struct, frozen=True):
    name: str
    method: Method
    uid: int | None = None
