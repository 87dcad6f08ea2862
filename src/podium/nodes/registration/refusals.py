"""What can never be registered: the rules that make a registration REJECTED. Codes only, never a value."""

import json
from typing import Final
from urllib.parse import urlsplit

from podium.nodes.registration.models.model_orchestrator_config import ReducerRules
from podium.patterns import lazy_pattern
from podium.ports.catalog import NodeDescription

NODE_TYPE_NOT_ALLOWED: Final = "NODE_TYPE_NOT_ALLOWED"
NODE_VERSION_INVALID: Final = "NODE_VERSION_INVALID"
NODE_NAME_INVALID: Final = "NODE_NAME_INVALID"
ENDPOINT_INVALID: Final = "ENDPOINT_INVALID"
NODE_TOO_LARGE: Final = "NODE_TOO_LARGE"

_VERSION: Final = lazy_pattern(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}([-+][A-Za-z0-9.+-]{1,64})?")
_NAME: Final = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Part of a metadata key, in which the service catalog does not allow dots.
_ENDPOINT_NAME: Final = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_ENDPOINT_PREFIX: Final = "endpoint_"


def refusal(node: NodeDescription, rules: ReducerRules) -> str | None:
    """The code of the first rule that refuses the node."""
    if node.node_type not in rules.allowed_node_types:
        return NODE_TYPE_NOT_ALLOWED
    if _VERSION.fullmatch(node.node_version) is None:
        return NODE_VERSION_INVALID
    if not _has_valid_names(node):
        return NODE_NAME_INVALID
    if len(node.endpoints) > rules.max_endpoints or _size(node) > rules.max_content_bytes:
        return NODE_TOO_LARGE
    if not all(_is_endpoint(url, rules.max_endpoint_bytes) for url in node.endpoints.values()):
        return ENDPOINT_INVALID
    return None


def endpoint_key(name: str) -> str:
    """The metadata key for the address of an endpoint."""
    return f"{_ENDPOINT_PREFIX}{name}"


def _has_valid_names(node: NodeDescription) -> bool:
    given = (node.node_role, node.network_id, node.deployment_id)
    return all(name is None or _NAME.fullmatch(name) for name in given) and all(
        _ENDPOINT_NAME.fullmatch(name) for name in node.endpoints
    )


def _is_endpoint(url: str, max_bytes: int) -> bool:
    if (
        len(url.encode(errors="replace")) > max_bytes
        or not url.isascii()
        or not url.isprintable()
        or " " in url
    ):
        return False
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is not a number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def _size(node: NodeDescription) -> int:
    return len(json.dumps([node.capabilities, node.metadata, node.endpoints]))
