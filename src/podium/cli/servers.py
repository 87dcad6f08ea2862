"""`--server`: commands that use a Podium server instead of a store, with the same output and exit codes.

The address comes from `--server` or PODIUM_SERVER, the token from PODIUM_TOKEN, because other users of a
machine can read a command line. `--store` on the command line selects the store, whatever PODIUM_SERVER says.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, TypeVar

import click
import msgspec

from podium.cli.hints import given_place, given_runs, remember_place
from podium.cli.storing import Command, store_option, tenant_option, using_parts, using_run
from podium.errors import InvalidConfiguration
from podium.log.ids import LAST, RunId, is_id, is_uuid4

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from podium.client import Client
    from podium.operations.parts import Parts

SERVER: Final = "PODIUM_SERVER"
TOKEN: Final = "PODIUM_TOKEN"
T = TypeVar("T")


def place_options(command: Command) -> Command:
    """`--server`, `--store`, `--runs` and `--tenant`: the location of the run."""
    return server_option(store_option(tenant_option(command)))


def server_option(command: Command) -> Command:
    return click.option(
        "--server",
        metavar="URL",
        expose_value=False,
        callback=_server_given,
        help="A Podium server instead of the store; its token is in PODIUM_TOKEN. [default: PODIUM_SERVER]",
    )(command)


def _server_given(_context: click.Context, _option: click.Parameter, value: str | None) -> None:
    remember_place("--server", value)


def given_server() -> str | None:
    """The address of the server to use; None for the store. Raises `click.UsageError`."""
    asked, is_local = given_place("--server"), given_place("--store") is not None or given_runs() is not None
    if asked is not None and is_local:
        raise click.UsageError("--server names a server, --store and --runs a store: give one of them.")
    server = asked if asked is not None else None if is_local else os.environ.get(SERVER) or None
    if server is not None and given_place("--tenant") is not None:
        raise click.UsageError("--tenant is for a store: on a server, the token has its tenant.")
    return server


def asking(store: str | None, local: "Callable[[Parts], Awaitable[T]]", remote: "Callable[[Client], T]") -> T:
    """Ask the server, if one is named, else the store."""
    server = given_server()
    if server is None:
        return using_parts(store, local)
    with client_of(server) as client:
        return readable(lambda: remote(client))


def asking_run(
    store: str | None,
    tenant: str,
    name: str,
    local: "Callable[[Parts, RunId], Awaitable[T]]",
    remote: "Callable[[Client, RunId], T]",
) -> T:
    """The same for operations on one run, with its id. `name`: an id, the start of one, or `last`."""
    server = given_server()
    if server is None:
        return using_run(store, tenant, name, local)
    with client_of(server) as client:
        return readable(lambda: remote(client, run_on_server(client, name)))


def run_on_server(client: "Client", name: str) -> "RunId":
    """Finds the run like `operations.run_names`: a name that matches none is passed on, and refused there.

    The server records every run that is asked for and is not found, so what may be only the start of an id is
    looked for in the list first.
    """
    from podium.operations.run_names import MAX_CANDIDATES, AmbiguousRun

    unchanged = RunId(name)
    # The whole id of a run that was started over HTTP.
    if not is_id(name) or is_uuid4(name):
        return unchanged
    if name == LAST:
        newest = _listed(client, limit=1)
        return newest[0] if newest else unchanged
    found = _listed(client, prefix=name, limit=MAX_CANDIDATES + 1, or_run=name)
    if len(found) > 1:
        raise AmbiguousRun(name, found)
    return found[0] if found else unchanged


def _listed(
    client: "Client", *, limit: int, prefix: str | None = None, or_run: str | None = None
) -> list[RunId]:
    """Ids of the newest runs with this prefix, at most `limit`. `or_run`: alone, if a run has exactly this id.

    A page may be short although more follow. Before these are read, `or_run` is looked up: a large store has many.
    """
    from podium.client import printed_calls

    found, cursor, is_looked_up = list[RunId](), None, or_run is None
    while True:
        page = client.ask(printed_calls.run_ids(prefix=prefix, limit=limit - len(found), cursor=cursor))
        found += [RunId(one["runId"]) for one in page["runs"]]
        cursor = page["cursor"]
        if or_run is not None and or_run in found:
            return [RunId(or_run)]
        if cursor is not None and or_run is not None and not is_looked_up:
            is_looked_up = True
            if _is_run(client, or_run):
                return [RunId(or_run)]
        if cursor is None or len(found) >= limit:
            return found


def _is_run(client: "Client", run_id: str) -> bool:
    from podium.client import ServerError

    try:
        client.run(run_id)
    except ServerError as error:
        if error.code != "RUN_NOT_FOUND":
            raise
        return False
    return True


def client_of(server: str) -> "AbstractContextManager[Client]":
    from podium.client import Client

    return Client(server, given_token())


def given_token() -> str:
    token = os.environ.get(TOKEN, "")
    if not token:
        raise InvalidConfiguration(
            f"a server needs a token: put it into the environment variable {TOKEN} (`podium token add` makes one)"
        )
    return token


def readable(ask: Callable[[], T]) -> T:
    """Translates errors about answers of a server with another version, which this one cannot parse."""
    try:
        return ask()
    except (msgspec.ValidationError, KeyError) as error:
        from podium.client import InvalidAnswer

        raise InvalidAnswer(f"the server answered what this version does not understand: {error}") from None
