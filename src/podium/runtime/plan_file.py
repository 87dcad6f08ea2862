"""The plan of a run: the one it was created with, or a replacement.

The store has it, with the workflow file, and so does a backup or an export; the run's directory has a copy
for people. A run that an earlier version created has them in its directory only, and they are read from
there.

The run's row contains the hash of the first plan and never changes. A replacement is listed in
`plan.replaced.json`, each entry with the hash before and after; the plan itself is accepted only if such a
chain leads to it. Earlier plans are kept as `plan.1.json`, `plan.2.json`. A process that replaces the plan
holds the run's lock.
"""

from functools import lru_cache
from hashlib import sha256
from typing import Final

import msgspec

from podium.errors import ContentDamaged, ContentMissing, PlanNotApproved, PodiumError
from podium.log.payloads import RunQueued, SignedBy
from podium.log.runs import Run
from podium.log.times import Timestamp
from podium.patterns import lazy_pattern
from podium.plan.loading import plan_bytes, read_plan
from podium.plan.plan import Plan
from podium.ports.store import Contents
from podium.runtime.rundir import RunDirectory, write_atomically

PLAN: Final = "plan.json"
WORKFLOW: Final = "workflow.yaml"
REPLACED: Final = "plan.replaced.json"
# Signatures of the run's current plan; an empty list if it is not signed.
SIGNATURES: Final = "plan.sig"
_PLAN_FILE: Final = lazy_pattern(r"plan\.([A-Za-z0-9_-]+\.)*json")


class PlanMissing(PodiumError):
    code = "PLAN_MISSING"


class Replacement(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    old: str
    new: str
    replaced_at: Timestamp
    forced: bool = False
    signed_by: tuple[SignedBy, ...] = ()


def is_plan_file(name: str) -> bool:
    """Whether a file of a run's directory is also kept in the store. Names come from exports, too: one with a
    slash could lead out of the directory.
    """
    return name in (WORKFLOW, REPLACED, SIGNATURES) or _PLAN_FILE.fullmatch(name) is not None


async def load_plan(contents: Contents, directory: RunDirectory, run: Run) -> Plan:
    """The plan of a run; only if its hash is the one the run was created with, or that of a replacement."""
    return (await load_hashed_plan(contents, directory, run))[0]


async def load_hashed_plan(contents: Contents, directory: RunDirectory, run: Run) -> tuple[Plan, str]:
    """The same, with the SHA-256 of its bytes."""
    content = await plan_content(contents, directory, run)
    actual = sha256(content).hexdigest()
    if run.plan_sha256 not in ("", actual) and actual not in await accepted_hashes(contents, directory, run):
        if run.needs_approval:
            raise PlanNotApproved(run.identity.run_id, run.plan_sha256, actual)
        raise PlanMissing(
            f"{directory.plan} is not the plan that run {run.identity.run_id!r} was created with"
        )
    return read_content(content), actual


async def plan_content(contents: Contents, directory: RunDirectory | None, run: Run) -> bytes:
    """The bytes of a run's plan, not verified. Without a directory only the store is read."""
    try:
        content = await _kept(contents, directory, run, PLAN)
    except ContentDamaged as error:
        raise PlanMissing(str(error)) from error
    if content is None:
        also = (
            f"neither in the store nor at {directory.plan}" if directory is not None else "not in the store"
        )
        raise PlanMissing(f"the plan of run {run.identity.run_id!r} is {also}; restore it from a backup")
    return content


async def load_source(contents: Contents, directory: RunDirectory, run: Run) -> bytes:
    """The workflow file as it was written."""
    return await _kept(contents, directory, run, WORKFLOW) or b""


@lru_cache(maxsize=8)
def read_content(content: bytes) -> Plan:
    """Cached: many runs of one plan share it, and everything derived from it."""
    return read_plan(content)


async def replace_plan(
    contents: Contents,
    run: Run,
    directory: RunDirectory,
    plan: Plan,
    source: bytes,
    *,
    at: Timestamp,
    forced: bool = False,
    signatures: bytes | None = None,
    signed_by: tuple[SignedBy, ...] = (),
) -> None:
    """Called under the run's lock. The store changes first; if the process is killed before the directory
    does, that is repaired later.
    """
    before, after = await _kept(contents, directory, run, PLAN), plan_bytes(plan)
    assert before is not None
    had = await _kept(contents, directory, run, SIGNATURES)
    if before == after and signatures in (None, had):
        return
    listed = await _replacements(contents, directory, run)
    one = Replacement(sha256(before).hexdigest(), sha256(after).hexdigest(), at, forced, signed_by)
    files = {
        f"plan.{len(listed) + 1}.json": before,
        REPLACED: msgspec.json.format(msgspec.json.encode([*listed, one])),
        PLAN: after,
        WORKFLOW: source,
    }
    if signatures is not None or had is not None:
        files[SIGNATURES] = signatures if signatures is not None else b"[]"
    await contents.keep(run.identity.run_id, files)
    for name, content in files.items():
        write_atomically(directory.path / name, content, durable=False)


async def _kept(contents: Contents, directory: RunDirectory | None, run: Run, name: str) -> bytes | None:
    """The content from the store, else from the directory; one of them has all files of a run."""
    try:
        return await contents.kept(run.identity.run_id, name)
    except ContentMissing:
        pass
    try:
        if name != PLAN and await contents.kept(run.identity.run_id, PLAN):
            return None
    except ContentMissing:
        pass
    if directory is None:
        return None
    try:
        return (directory.path / name).read_bytes()
    except OSError:
        return None


async def _replacements(contents: Contents, directory: RunDirectory | None, run: Run) -> list[Replacement]:
    content = await _kept(contents, directory, run, REPLACED)
    try:
        return msgspec.json.decode(content, type=list[Replacement]) if content is not None else []
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PlanMissing(
            f"{REPLACED} of run {run.identity.run_id!r} cannot be read: {error}; restore it from a backup"
        ) from error


async def signers_of(contents: Contents, run: Run, asked: RunQueued) -> tuple[SignedBy, ...]:
    """Who has signed the plan that a run has now; `asked`: the request that created it."""
    replaced = await _replacements(contents, None, run)
    return replaced[-1].signed_by if replaced else asked.signed_by


async def accepted_hashes(contents: Contents, directory: RunDirectory | None, run: Run) -> set[str]:
    """Hashes of the plan that the run was created with, and of its replacements.

    A run that needs an approval keeps its plan: a replacement would not be what was approved.
    """
    accepted = {run.plan_sha256}
    if run.needs_approval:
        return accepted
    for one in await _replacements(contents, directory, run):
        if one.old in accepted:
            accepted.add(one.new)
    return accepted
