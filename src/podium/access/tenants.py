"""Tenants that an owner has created or closed."""

import msgspec

from podium.log.times import Timestamp


class TenantState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    tenant_id: str
    created_at: Timestamp
    closed_at: Timestamp | None = None
