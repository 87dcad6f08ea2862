"""The identity of a caller, and how it was authenticated. A name without a method is only a claim."""

from enum import StrEnum

import msgspec


class Method(StrEnum):
    """How an actor was authenticated."""

    # The user that the process runs as.
    OS_USER = "os-user"
    # A token whose SHA-256 the configuration lists, or the store has.
    TOKEN = "token"
    # A token or a login of the configured identity provider.
    OIDC = "oidc"
    # A program that uses Podium as a library and names the actor.
    PROGRAM = "program"
    # Only in the log of a run: the owner of the file `.cancel`, and another run, by its concurrency rules.
    FILE = "file"
    RUN = "run"
    # A schedule: the person who defined it decided what it starts and cancels.
    SCHEDULE = "schedule"
    # A hook that received a signed delivery.
    HOOK = "hook"


class Actor(msgspec.Struct, frozen=True):
    name: str
    method: Method
    uid: int | None = None
