"""`access.tokens`: the tokens that authenticate callers, by their SHA-256.

A value is never shown, because it may be the token itself, written in place of its SHA-256.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from podium.access.policy import TenantRules
from podium.configuration.problems import Problems
from podium.configuration.values import is_id, section
from podium.language.tree import Entry, Node, Scalar, Sequence

_RIGHT: Final = "write a mapping of users, like {ci-bot: sha256:HEX}"
_DIGEST: Final = re.compile(r"sha256:[0-9a-fA-F]{64}")


def read_tokens(
    entry: Entry | None, tenants: Mapping[str, TenantRules], problems: Problems
) -> Mapping[str, str]:
    """Names of users, by the SHA-256 of their token."""
    tokens: dict[str, str] = {}
    given = section(entry, "access.tokens", _RIGHT, problems) if entry is not None else None
    for name, one in (given or {}).items():
        if is_id("user", one, problems):
            _check_roles(name, one, tenants, problems)
        for node, digest in _digests(name, one, problems):
            if digest in tokens:
                problems.add_at(
                    node, f"`access.tokens.{name}` has the same token as {tokens[digest]!r}; {_OWN}"
                )
            tokens[digest] = name
    return tokens


_OWN: Final = "give every user a token of their own"


def _check_roles(name: str, entry: Entry, tenants: Mapping[str, TenantRules], problems: Problems) -> None:
    if not any(name in rules.members for rules in tenants.values()):
        problems.add(
            entry,
            f"`access.tokens.{name}` is for a user without any role, who may do nothing; list {name!r} in the "
            "`users` of a tenant",
        )


def _digests(name: str, entry: Entry, problems: Problems) -> Iterator[tuple[Node, str]]:
    nodes = entry.value.items if isinstance(entry.value, Sequence) else [entry.value]
    if not nodes:
        problems.wrong(entry, f"access.tokens.{name}", "write sha256:HEX, or a list of them")
    for node in nodes:
        match node:
            case Scalar(value=str(text)) if _DIGEST.fullmatch(text):
                yield node, text.removeprefix("sha256:").lower()
            case _:
                problems.add_at(
                    node,
                    f"`access.tokens.{name}` is not the SHA-256 of a token (not shown: it may be the token itself); "
                    "write sha256: and 64 hex digits, as `printf %s TOKEN | sha256sum` prints them",
                )
