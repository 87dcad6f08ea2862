"""Search attributes, with which Temporal's own tools find the executions of a tenant, a project or a plan.

A worker registers them. If the server does not permit that, runs start without them: Temporal refuses to
start an execution with an unknown attribute.
"""

import logging
from typing import Final

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from podium.log.events import RunIdentity

_LOG: Final = logging.getLogger(__name__)
_KEYS: Final = {
    name: SearchAttributeKey.for_keyword(name)
    for name in ("PodiumTenant", "PodiumProject", "PodiumEnvironment", "PodiumPlan")
}


async def register(client: Client) -> None:
    if await _are_known(client):
        return
    keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    wanted = AddSearchAttributesRequest(
        namespace=client.namespace, search_attributes=dict.fromkeys(_KEYS, keyword)
    )
    try:
        await client.operator_service.add_search_attributes(wanted)
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            _LOG.warning(
                "runs have no search attributes on the server, which refused to register %s: %s",
                ", ".join(_KEYS),
                error,
            )


async def attributes_of(client: Client, run: RunIdentity) -> TypedSearchAttributes:
    """Empty if the server does not know them."""
    if not await _are_known(client):
        return TypedSearchAttributes.empty
    values = (run.tenant_id, run.project_id, run.environment_id, run.plan_id)
    return TypedSearchAttributes(
        [SearchAttributePair(key, value) for key, value in zip(_KEYS.values(), values, strict=True)]
    )


async def _are_known(client: Client) -> bool:
    try:
        found = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError:
        return False
    return _KEYS.keys() <= found.custom_attributes.keys()
