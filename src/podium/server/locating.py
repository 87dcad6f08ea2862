"""Where in a request the value is that a use case refused. Use cases name it in their own words (`pool`,
`start_at`); the handler's signature says which part of the request that is.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from litestar.params import HeaderParameter, QueryParameter

from podium.errors import PodiumError

# What errors that name no value are about.
_SUBJECTS: Final = {
    "INVALID_FILTER": "filter",
    "INVALID_LABEL": "labels",
    "INVALID_PLAN_REF": "plan",
    "PLAN_NOT_PUBLISHED": "plan",
    "RECEIVER_REFUSED": "url",
    "APPROVAL_PLAN_MISMATCH": "plan_sha256",
}
# Values that have another name in a request.
_NAMES: Final = {
    "hook": "name",
    "webhook": "name",
    "schedule": "id",
    "the name of a token": "name",
    "project_id": "projects",
    "plan_id": "plans",
    "scope": "kind",
}


def location_of(error: PodiumError, scope: Any) -> str:
    """Like `$.startAt` or `query.cursor`; empty if the request does not have what the error names."""
    subject = error.subject or _SUBJECTS.get(error.code, "")
    handler = scope.get("route_handler")
    if not subject or handler is None:
        return ""
    known = {subject, subject.removesuffix("_id"), f"{subject}_id", _NAMES.get(subject, subject)}
    places = (*_in_body(handler), *_in_path(scope), *_in_parameters(handler))
    return next((place for name, place in places if name in known), "")


def _in_body(handler: Any) -> Iterator[tuple[str, str]]:
    body = handler.parsed_data_field
    if body is not None and isinstance(body.annotation, type) and issubclass(body.annotation, msgspec.Struct):
        for field in msgspec.structs.fields(body.annotation):
            yield field.name, f"$.{field.encode_name}"
            yield field.encode_name, f"$.{field.encode_name}"


def _in_path(scope: Any) -> Iterator[tuple[str, str]]:
    for name in scope.get("path_params", ()):
        yield name, f"path.{name}"


def _in_parameters(handler: Any) -> Iterator[tuple[str, str]]:
    for name, field in handler.parsed_fn_signature.parameters.items():
        match field.kwarg_definition:
            case QueryParameter(name=alias):
                yield alias or name, f"query.{alias or name}"
            case HeaderParameter(name=alias):
                yield alias or name, f"header {alias or name}"
