"""Roles are nested: an engineer has the permissions of an operator, an admin those of an engineer. The others
are separate.

An author publishes plans, which means executing code on the workers of the tenant. An owner manages tokens,
workers and, in the tenant `default`, tenants. Neither is included in another role.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    VIEWER = "viewer"
    AUDITOR = "auditor"
    OPERATOR = "operator"
    ENGINEER = "engineer"
    ADMIN = "admin"
    APPROVER = "approver"
    AUTHOR = "author"
    SYSTEM = "system"
    OWNER = "owner"


_INCLUDED: Final = {
    Role.ENGINEER: frozenset({Role.OPERATOR}),
    Role.ADMIN: frozenset({Role.ENGINEER, Role.OPERATOR, Role.AUDITOR}),
}


def with_included(roles: Iterable[Role]) -> frozenset[Role]:
    """The roles and those they include. Any role includes the permission to read."""
    given = frozenset(roles)
    nested = given.union(*(_INCLUDED.get(role, frozenset()) for role in given))
    return nested | {Role.VIEWER} if nested else nested
