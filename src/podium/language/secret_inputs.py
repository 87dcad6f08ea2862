"""Steps that name a secret input get it like a secret that they list."""

from collections.abc import Collection

from msgspec.structs import replace

from podium.machine.program import references_in
from podium.plan.plan import Body, Work
from podium.plan.secret_inputs import secret_of_input


def with_secret_inputs(body: Body, names: Collection[str]) -> Body:
    """`names`: those of the workflow. Only tasks have secrets; in other steps a reference to one is an error."""
    work = getattr(body, "work", None)
    if not isinstance(work, Work):
        return body
    paths = (reference.path for reference in references_in(body))
    used = {str(path[1]) for path in paths if path[0] == "inputs" and len(path) == 2 and path[1] in names}
    if not used:
        return body
    secrets = (*work.secrets, *map(secret_of_input, sorted(used)))
    return replace(body, work=replace(work, secrets=secrets))
