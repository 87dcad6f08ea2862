"""The identity of the caller: named by the program, proven by a token, or the user that the process runs as."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from podium.access.actors import Actor, Method
from podium.errors import InvalidConfiguration
from podium.log.ids import check_id

if TYPE_CHECKING:
    from podium.access.policy import AccessPolicy

TOKEN: Final = "PODIUM_TOKEN"


def identify(
    policy: "AccessPolicy | None", variables: Mapping[str, str], given: str | Actor | None = None
) -> Actor:
    """`given`: from a program that knows for whom it acts. Raises `NotAllowed` for an unknown token, because
    a caller with a token does not want another identity. Messages never show the token.
    """
    if isinstance(given, Actor):
        return given
    if given is not None:
        check_id("actor", given)
        return Actor(given, Method.PROGRAM)
    token = variables.get(TOKEN)
    if token:
        return Actor(_holder(policy, token), Method.TOKEN)
    return os_user()


def os_user() -> Actor:
    from podium.runtime import callers

    name, uid = callers.os_user()
    return Actor(name, Method.OS_USER, uid)


def _holder(policy: "AccessPolicy | None", token: str) -> str:
    from podium.access.tokens import holder_of
    from podium.operations.access import NotAllowed

    if policy is None or not policy.tokens:
        raise InvalidConfiguration(
            f"{TOKEN} is set, and no tokens are configured: unset it, or list the SHA-256 of the token in "
            "`access.tokens` of the configuration file"
        )
    name = holder_of(policy, token)
    if name is None:
        raise NotAllowed(
            f"the token in {TOKEN} is unknown: `access.tokens` in the configuration file does not list its SHA-256; "
            "set another token, or unset it to be known as the user of this machine"
        )
    return name
