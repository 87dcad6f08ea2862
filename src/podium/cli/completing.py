"""Shell completion of values besides commands and options: runs, steps, templates and files.

Nothing is created for it, and errors are not reported, because a command line is still being typed.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from podium.errors import PodiumError
from podium.log.ids import DEFAULT_TENANT, LAST

if TYPE_CHECKING:
    from podium.operations.parts import Parts

_MAX_RUNS: Final = 100
_MAX_STEPS: Final = 500


def complete_run(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    async def work(parts: "Parts") -> list[CompletionItem]:
        from podium.log.runs import RunQuery

        query = RunQuery(id_prefix=incomplete or None, limit=_MAX_RUNS)
        page = await parts.store.runs.page(_tenant(context), query)
        return [_run_item(run.identity.run_id, run.status.value) for run in page.runs]

    found = _asked(context, work)
    newest = [_run_item(LAST, "the newest run")] if LAST.startswith(incomplete) and found else []
    return [*newest, *found]


def complete_step(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    async def work(parts: "Parts") -> list[CompletionItem]:
        from podium.operations.run_names import resolve_run
        from podium.operations.runs import show_run

        tenant = _tenant(context)
        run_id = await resolve_run(parts, tenant, context.params.get("run_id") or LAST)
        view = await show_run(parts.store, parts.clock, tenant, run_id, limit=_MAX_STEPS)
        steps = [step for step in view.steps if step.step_id.startswith(incomplete)]
        return [CompletionItem(step.step_id, help=step.status.value) for step in steps]

    return _asked(context, work)


def complete_file(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def complete_file_or_run(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [*complete_run(context, parameter, incomplete), *complete_file(context, parameter, incomplete)]


def complete_template(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from podium.cli.init import template_names

    return [CompletionItem(name) for name in template_names() if name.startswith(incomplete)]


def _run_item(run_id: str, help_: str) -> CompletionItem:
    return CompletionItem(run_id, help=help_)


def _tenant(context: click.Context) -> str:
    return context.params.get("tenant") or DEFAULT_TENANT


def _asked(
    context: click.Context, work: "Callable[[Parts], Awaitable[list[CompletionItem]]]"
) -> list[CompletionItem]:
    from podium.cli.storing import using_parts

    store: Any = context.params.get("store")
    try:
        return using_parts(store, work)
    except (PodiumError, OSError, click.ClickException):
        return []
