"""The root of the command line, and the one place where errors become exit codes.

0   done                        65  an input file is invalid
1   the workflow failed         70  an internal error: a defect in Podium
64  the command line is wrong   74  the output could not be written
69  the store does not answer   77  not allowed: a step asked something of its own run, or a place of plans
                                78  something that is needed is missing, or of another version
"""

import contextlib
import errno
import gc
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib import import_module
from io import StringIO, TextIOWrapper
from typing import Final

import click

import podium
from podium.cli.hints import forget_places, say
from podium.errors import PodiumError
from podium.text import reason_of, shortened, without_credentials

FAILED: Final = 1
USAGE: Final = 64
INVALID_FILE: Final = 65
UNAVAILABLE: Final = 69
INTERNAL_ERROR: Final = 70
OUTPUT_FAILED: Final = 74
LOCKED: Final = 75
NOT_ALLOWED: Final = 77
MISCONFIGURED: Final = 78
INTERRUPTED: Final = 130
# All other foreseen errors are invalid input.
_EXIT_OF: Final = {
    "RUN_NOT_FOUND": USAGE,
    "RUN_AMBIGUOUS": USAGE,
    "LISTENING_REFUSED": MISCONFIGURED,
    "UNKNOWN_STORE": USAGE,
    "UNKNOWN_BUS": USAGE,
    "BUS_FILTER_CONFLICT": USAGE,
    "BUS_UNAVAILABLE": UNAVAILABLE,
    "BUS_REFUSED": MISCONFIGURED,
    "TOPIC_REFUSED": MISCONFIGURED,
    "MESSAGE_REFUSED": MISCONFIGURED,
    "UNKNOWN_CATALOG": USAGE,
    "CATALOG_UNAVAILABLE": UNAVAILABLE,
    "CATALOG_REFUSED": MISCONFIGURED,
    "CATALOG_VERSION": MISCONFIGURED,
    "NOT_REGISTRATION": INVALID_FILE,
    "INVALID_ID": USAGE,
    "INVALID_FILTER": USAGE,
    "INVALID_INPUT": USAGE,
    "INVALID_LABEL": USAGE,
    "INVALID_NODE_NAME": USAGE,
    "PLAN_NOT_PUBLISHED": USAGE,
    "HOOK_INVALID": USAGE,
    "HOOK_NOT_FOUND": USAGE,
    "HOOK_EXISTS": USAGE,
    "WEBHOOK_INVALID": USAGE,
    "WEBHOOK_NOT_FOUND": USAGE,
    "WEBHOOK_EXISTS": USAGE,
    "RECEIVER_REFUSED": NOT_ALLOWED,
    "SCHEDULE_INVALID": USAGE,
    "SCHEDULE_NOT_FOUND": USAGE,
    "SCHEDULE_EXISTS": USAGE,
    "SCHEDULE_BACKFILL_ACTIVE": USAGE,
    "SCHEDULE_CHANGED": LOCKED,
    "RUN_EXISTS": USAGE,
    "WORKER_NOT_FOUND": USAGE,
    "INVALID_LIMIT": USAGE,
    "LIMIT_NOT_FOUND": USAGE,
    "NOT_FOR_POOL": USAGE,
    "STORE_EXISTS": USAGE,
    "RUN_COMPLETED": USAGE,
    "RUN_TERMINAL": USAGE,
    "SIGNAL_DUPLICATE": USAGE,
    "SIGNAL_IGNORED": USAGE,
    "APPROVAL_DECIDED": USAGE,
    "RUN_NOT_APPROVED": USAGE,
    "SIGNAL_INVALID_PAYLOAD": USAGE,
    "STEP_RUNNING": USAGE,
    "STEP_TERMINAL": USAGE,
    "STEP_NOT_TERMINAL": USAGE,
    "SIGNAL_RATE_LIMITED": LOCKED,
    "RUN_NOT_TERMINAL": USAGE,
    "AUTHZ_DENIED": NOT_ALLOWED,
    "AUTHZ_REASON_REQUIRED": NOT_ALLOWED,
    "AUTHZ_TENANT_FORBIDDEN": NOT_ALLOWED,
    "OTHER_ENGINE": MISCONFIGURED,
    "OTHER_RULES": MISCONFIGURED,
    "LOG_DOES_NOT_FIT": MISCONFIGURED,
    "RECORDING_UNUSABLE": USAGE,
    "RUN_LOCKED": LOCKED,
    "CONCURRENCY_LIMIT": LOCKED,
    "STALE_FENCE": LOCKED,
    "STORE_UNAVAILABLE": UNAVAILABLE,
    "ARTIFACT_STORE_UNAVAILABLE": UNAVAILABLE,
    "ARTIFACT_NOT_STORED": UNAVAILABLE,
    "ARTIFACT_BUCKET_UNREACHABLE": MISCONFIGURED,
    "STORE_VERSION": MISCONFIGURED,
    "AUDIT_KEY_INVALID": MISCONFIGURED,
    "PROVIDER_NOT_INSTALLED": MISCONFIGURED,
    "PROVIDER_NOT_AVAILABLE": MISCONFIGURED,
    "WORKTREE_NOT_POSSIBLE": MISCONFIGURED,
    "CLIENT_NOT_INSTALLED": MISCONFIGURED,
    "NOTIFICATION_NOT_DELIVERED": UNAVAILABLE,
    "WORKSPACE_MISSING": MISCONFIGURED,
    "PROVIDER_MISCONFIGURED": MISCONFIGURED,
    "CONFIG_INVALID": MISCONFIGURED,
    "ENV_FILE_REQUIRED": MISCONFIGURED,
    "ENV_FILE_NOT_USABLE": MISCONFIGURED,
    "INVALID_PLAN_REF": USAGE,
    "PLAN_NOT_FOUND": USAGE,
    "PLAN_EXISTS": USAGE,
    "PLAN_UNAVAILABLE": UNAVAILABLE,
    "PLAN_URI_NOT_ALLOWED": NOT_ALLOWED,
    "TOKEN_NOT_FOUND": USAGE,
    "TOKEN_INVALID": USAGE,
    "TENANT_REFUSED": USAGE,
    "TENANT_CLOSED": NOT_ALLOWED,
    "PLAN_NOT_SIGNED": NOT_ALLOWED,
    "PLAN_SIGNATURE_INVALID": NOT_ALLOWED,
    "PLAN_SIGNATURE_EXPIRED": NOT_ALLOWED,
    "PLAN_SIGNER_UNKNOWN": NOT_ALLOWED,
    "PLAN_KEY_EXPIRED": NOT_ALLOWED,
    "CAPABILITY_NOT_SUPPORTED": MISCONFIGURED,
    "CAPABILITY_UNKNOWN": MISCONFIGURED,
    "NOT_READY": MISCONFIGURED,
    "SECRET_NOT_FOUND": MISCONFIGURED,
    "SECRET_PROVIDER_FAILED": MISCONFIGURED,
    "SECRET_TOO_SHORT": MISCONFIGURED,
    "EXTRA_MISSING": MISCONFIGURED,
    "METRICS_UNAVAILABLE": UNAVAILABLE,
    "FUNCTION_NOT_REGISTERED": MISCONFIGURED,
    "NODE_NOT_AVAILABLE": MISCONFIGURED,
    "FILE_NOT_USABLE": OUTPUT_FAILED,
    "ENGINE_UNAVAILABLE": UNAVAILABLE,
    "ENGINE_REFUSED": MISCONFIGURED,
    "NO_WORKER": UNAVAILABLE,
    "EXECUTION_EXISTS": USAGE,
    "SERVER_UNREACHABLE": UNAVAILABLE,
    "SERVER_ANSWER_INVALID": UNAVAILABLE,
    "UNAUTHENTICATED": NOT_ALLOWED,
    "REQUEST_INVALID": USAGE,
    "RATE_LIMITED": LOCKED,
}
_MAX_NAME_SHOWN: Final = 200
_CANNOT_WRITE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})

# Set by the shell when it requests completions (`podium completion`).
COMPLETE_VARIABLE: Final = "_PODIUM_COMPLETE"

# name: (module, attribute, first line of its help)
_COMMANDS: Final = {
    "run": ("podium.cli.running", "run", "Run a workflow and wait for its end."),
    "resume": ("podium.cli.resuming", "resume", "Resume a stopped run."),
    "rerun": ("podium.cli.resuming", "rerun", "Run again from a step on, as a new run."),
    "why": ("podium.cli.inspect", "why", "Say what a run waits for."),
    "logs": ("podium.cli.inspect", "logs", "Print what the steps of a run wrote."),
    "report": ("podium.cli.inspect", "report", "Summarize a run."),
    "timeline": ("podium.cli.inspect", "timeline", "Show when the steps of a run ran."),
    "signal": ("podium.cli.signal", "signal", "Send a signal to a run."),
    "cancel": ("podium.cli.control", "cancel", "Stop a run."),
    "pause": ("podium.cli.control", "pause", "Pause a run: running steps finish, no new ones start."),
    "unpause": ("podium.cli.control", "unpause", "Let a paused run continue."),
    "retry-step": ("podium.cli.control", "retry_step", "Try a step again now."),
    "skip-step": ("podium.cli.control", "skip_step", "Leave a step out."),
    "approve": ("podium.cli.control", "approve", "Say yes to an approval step."),
    "reject": ("podium.cli.control", "reject", "Say no to an approval step."),
    "init": ("podium.cli.init", "init", "Write a first workflow to start from."),
    "validate": ("podium.cli.workflow", "validate", "Check workflow files."),
    "plan": ("podium.cli.workflow", "plan", "Show the plan that a workflow compiles to."),
    "publish": (
        "podium.cli.publish",
        "publish",
        "Write the plan of a workflow where other hosts can fetch it.",
    ),
    "sign": ("podium.cli.signing", "sign", "Sign a plan, or make a key for it."),
    "verify": ("podium.cli.signing", "verify", "Check a plan and its signatures."),
    "graph": ("podium.cli.graph", "graph", "Draw a workflow, or the state of a run."),
    "contract": ("podium.cli.contract", "contract", "Check node contracts and see what they do."),
    "schema": ("podium.cli.schema", "schema", "Print JSON Schemas for editors."),
    "runs": ("podium.cli.runs", "runs", "Look at runs."),
    "events": ("podium.cli.events", "events", "Print the events of a run, also as they come."),
    "notify": ("podium.cli.notify", "notify", "Try the targets of notifications."),
    "outbox": ("podium.cli.outbox", "outbox", "Look at events on their way to a bus."),
    "up": ("podium.cli.up", "up", "Start the server and a worker."),
    "worker": (
        "podium.cli.worker",
        "worker",
        "Carry out runs of pools, or of a Temporal or Conductor server.",
    ),
    "workers": ("podium.cli.workers", "workers", "See the workers of pools, and stop one."),
    "queue": ("podium.cli.limits", "queue", "See what waits in pools."),
    "limits": ("podium.cli.limits", "limits", "Limit how many runs are in progress."),
    "schedule": ("podium.cli.schedule", "schedule", "Run workflows at given times."),
    "hook": ("podium.cli.hook", "hook", "Let other systems start runs by signed requests."),
    "webhook": ("podium.cli.webhook", "webhook", "Send the events of runs to other systems."),
    "bus": ("podium.cli.bus", "bus", "Start runs by messages of a bus."),
    "registration": (
        "podium.cli.registration",
        "registration",
        "Register nodes in Consul and PostgreSQL.",
    ),
    "relay": ("podium.cli.relay", "relay", "Deliver events to a bus."),
    "doctor": ("podium.cli.doctor", "doctor", "Look at whether everything that Podium needs works."),
    "store": ("podium.cli.store", "store", "Look after the store."),
    "access": ("podium.cli.access", "access", "See who may do what."),
    "token": ("podium.cli.token", "token", "Manage tokens for the HTTP server."),
    "tenant": ("podium.cli.tenant", "tenant", "Manage tenants."),
    "audit": ("podium.cli.audit", "audit", "See who did what, and verify that the record is whole."),
    "export": ("podium.cli.transfer", "export_", "Write a run as JSON lines."),
    "import": ("podium.cli.transfer", "import_", "Put an exported run into a store."),
    "completion": ("podium.cli.completion", "completion", "Complete commands in the shell."),
    "prune": ("podium.cli.transfer", "prune", "Remove ended runs."),
}


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Disables garbage collection during imports: what is imported lives as long as the process."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        _collect_from_here()


def _collect_from_here() -> None:
    gc.freeze()
    gc.enable()


class _LazyGroup(click.Group):
    """Knows its commands by name and imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        if not gc.isenabled():
            _collect_from_here()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(podium.__version__, message="podium %(version)s")
def cli() -> None:
    """Podium runs workflows that must not be lost.

    \b
    Try:
      podium validate examples/test_fix_loop.yaml
      podium plan examples/release.yaml
      podium contract order examples/contracts/etl_pipeline.yaml
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        return _run_any(arguments)
    finally:
        _discard_unwritten()


def _run_any(arguments: Sequence[str]) -> int:
    wanted = os.environ.get(COMPLETE_VARIABLE)
    if wanted is not None:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "podium", COMPLETE_VARIABLE, wanted)
    if any("\0" in word for word in arguments):
        # No program can be started with one; only a caller inside this process can pass it.
        click.echo("an argument contains a NUL character, which no name can hold.", err=True)
        return USAGE
    forget_places()
    _open_closed_streams()
    _print_any_name()
    try:
        return _run(arguments)
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`).
        return 0
    except OSError as error:
        # An error of the environment, not a defect: a name that is too long, a folder in place of a file, a
        # full disk.
        return _world_refused(error)
    except Exception:
        return _internal_error()


def _run(arguments: Sequence[str]) -> int:
    try:
        # Not cli.main: it would report a closed pipe with exit code 1, which means "the workflow failed".
        with cli.make_context("podium", list(arguments)) as context:
            code = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except (click.Abort, KeyboardInterrupt, EOFError):
        return INTERRUPTED
    except click.ClickException as error:
        shown = StringIO()
        error.show(shown)
        _say_last(without_credentials(shown.getvalue()).rstrip("\n"))
        return USAGE
    except PodiumError as error:
        with contextlib.suppress(OSError):
            say(f"{error.code}: {without_credentials(str(error))}", err=True)
        return _EXIT_OF.get(error.code, INVALID_FILE)
    return code if isinstance(code, int) else 0


def _open_closed_streams() -> None:
    """Redirect streams that the caller closed to the null device. Otherwise the next file opened would get
    its number.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


# The encodings that have all letters.
_ALL_LETTERS: Final = frozenset({"utf-8", "utf8"})


def _print_any_name() -> None:
    """Names of files may contain bytes that are not text, and output may be restricted to the letters of a
    locale: the rest is printed escaped instead of ending the command.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and (
            stream.errors == "strict" or stream.encoding.lower() not in _ALL_LETTERS
        ):
            stream.reconfigure(errors="backslashreplace")


def _discard_unwritten() -> None:
    """What a stream did not take would fail again when the interpreter exits, and change the exit code to 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say_last(text: str) -> None:
    """The reason why a command ends; it ends with the same code if standard error cannot be written either."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True)


def _world_refused(error: OSError) -> int:
    if error.errno in _CANNOT_WRITE:
        _say_last(f"the output cannot be written: {error.strerror}")
        return OUTPUT_FAILED
    name = error.filename if isinstance(error.filename, str | bytes) else ""
    place = f" {shortened(os.fsdecode(name), _MAX_NAME_SHOWN)!r}" if name else ""
    _say_last(f"FILE_NOT_USABLE: cannot use{place or ' a file'}: {reason_of(error)}")
    return OUTPUT_FAILED


def _internal_error() -> int:
    _say_last(without_credentials(traceback.format_exc()).rstrip("\n"))
    _say_last("INTERNAL_ERROR: this is a defect in Podium; please report the lines above.")
    return INTERNAL_ERROR
