"""Actors for tests: one that may do everything, without rules."""

from podium.access.actors import Actor, Method
from podium.access.deciding import OwnerAuthoriser
from podium.operations.access import Access


def owner(name: str = "owner", uid: int = 1000) -> Access:
    return Access(Actor(name, Method.OS_USER, uid), OwnerAuthoriser())
