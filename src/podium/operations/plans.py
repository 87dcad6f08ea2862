"""Publishes plans, and uses published plans."""

from typing import NamedTuple

import msgspec

from podium.access.signatures import SUFFIX
from podium.errors import PodiumError
from podium.log.plan_refs import PlanRef, check_plan_ref, is_sha256
from podium.plan.capabilities import check_capabilities
from podium.plan.loading import plan_bytes
from podium.plan.plan import Plan
from podium.plan.references import reference_to
from podium.ports.plan_source import PlanExists, PlanSource
from podium.runtime.plan_loading import FetchedPlan, PlanLoader
from podium.text import shortened

_HASH = "#sha256="


class InvalidPlanRef(PodiumError):
    """A reference to a plan that cannot be parsed."""

    code = "INVALID_PLAN_REF"


class Published(NamedTuple):
    ref: PlanRef
    # False: the same plan had been published there before.
    is_new: bool


async def publish_plan(source: PlanSource, plan: Plan, uri: str) -> Published:
    """Write the plan to a URI; to a folder (`.../`) under its id and version. Raises `PlanExists`."""
    content = plan_bytes(plan)
    if uri.endswith("/"):
        uri = f"{uri}{plan.metadata.plan_id}/{plan.metadata.plan_version}.json"
    is_new = await source.publish(uri, content)
    return Published(reference_to(plan, content, uri), is_new)


async def publish_signatures(source: PlanSource, uri: str, signatures: bytes) -> bool:
    """Publish beside the plan at a URI, where `PlanLoader` looks for them. False: the same ones exist there.
    Raises `PlanExists`.
    """
    try:
        return await source.publish(uri + SUFFIX, signatures)
    except PlanExists as error:
        raise PlanExists(
            f"other signatures were published at {shortened(uri + SUFFIX, 200)!r}; they are left as they are. Let all "
            "keys sign before you publish, or publish the plan to another URI"
        ) from error


async def fetch_plan(
    loader: PlanLoader, given: str, content: bytes | None = None, *, engine: str
) -> FetchedPlan:
    """`given`: `URI#sha256=HASH`, else the name of a file with this content, a reference as JSON.

    Raises what `PlanLoader` raises, and what `check_capabilities` raises for the engine that is to run it.
    """
    if content is None:
        found = await fetch_by_uri(loader, given)
    else:
        found = await loader.fetch(parse_reference(content, given))
    check_capabilities(found.plan, engine)
    return found


async def fetch_by_uri(loader: PlanLoader, given: str) -> FetchedPlan:
    """`given`: `URI#sha256=HASH`. Raises what `PlanLoader` raises."""
    uri, _, expected = given.rpartition(_HASH)
    return await loader.fetch_by_hash(uri, expected)


def is_uri(given: str) -> bool:
    """Whether `--plan` names a plan itself. Raises `InvalidPlanRef` if the hash is missing."""
    if "://" not in given:
        return False
    _, mark, expected = given.rpartition(_HASH)
    if not mark or not is_sha256(expected):
        raise InvalidPlanRef(
            f"{shortened(given, 200)!r} does not say which plan it should be; write URI#sha256=HASH with the 64 "
            "hex digits that `podium publish` printed, or name a file with its whole answer (--json)"
        )
    return True


def parse_reference(content: bytes, name: str) -> PlanRef:
    """Parse a reference in the format of `podium publish --json`. Raises `InvalidPlanRef`."""
    try:
        ref = msgspec.json.decode(content, type=PlanRef)
        check_plan_ref(ref)
    except (msgspec.DecodeError, UnicodeDecodeError, PodiumError) as error:
        raise InvalidPlanRef(
            f"{shortened(name, 200)!r} is not a reference to a plan: {error}; use what `podium publish --json` printed"
        ) from error
    if not ref.uri:
        raise InvalidPlanRef(
            f"{shortened(name, 200)!r} is a reference without a URI; use what `podium publish --json` printed"
        )
    return ref
