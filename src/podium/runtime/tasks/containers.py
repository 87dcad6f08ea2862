"""Commands in containers, with the command line of Podman or Docker.

The client is our child, the command is not: it is stopped, and found after a crash of its driver, by the
labels of its container. Values of the environment are never in arguments: `--env NAME` takes the value from
the client's own environment. Variables that the client itself reads are passed in a file that only its owner
can read.
"""

import asyncio
import contextlib
import math
import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from podium.expressions.evaluate import EvaluationError
from podium.expressions.templates import render
from podium.plan.container_names import RUNTIMES, is_image, is_network, is_user
from podium.plan.plan import Container, Limits, Work
from podium.runtime.rundir import write_private
from podium.runtime.tasks import paths
from podium.runtime.tasks.families import GRACE_SECONDS
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import TaskOrder
from podium.runtime.tasks.places import PlaceProblem, marks_of, wait_for_end
from podium.runtime.tasks.processes import Child, find_program
from podium.text import shortened

_RUN_LABEL: Final = "podium.run"
_ATTEMPT_LABEL: Final = "podium.attempt"
_CLIENT_SECONDS: Final = 30.0
_OF_THE_CLIENT: Final = frozenset({"PATH", "HOME", "USER", "TMPDIR", "LANG", "TERM"})
_PREFIXES_OF_THE_CLIENT: Final = ("DOCKER_", "CONTAINER", "PODMAN_", "XDG_", "LD_", "GO", "DBUS_")


class ContainerPlace:
    """A `CommandPlace`: one command in a container of its own."""

    def __init__(
        self, order: TaskOrder, container: Container, work: Work, host: TaskHost, words: list[str]
    ) -> None:
        self.env = {**host.environment, **marks_of(order, host.directory.absolute)}
        self._runtime = runtime_of(container, self.env)
        self.cwd = host.workspace
        self._stdin = paths.input_file(work, order.lookup, host)
        self._labels = {_RUN_LABEL: run_label(order.run_id, host), _ATTEMPT_LABEL: attempt_label(order, host)}
        self._env_file: Path | None = None
        self.argv = [
            self._runtime,
            "run",
            "--rm",
            *(word for name, value in self._labels.items() for word in ("--label", f"{name}={value}")),
            *(["--interactive"] if self._stdin is not None else []),
            *_settings(container, order, self._runtime),
            *_mounts(host),
            "--workdir",
            str(paths.workdir(work, order.lookup, host.workspace)),
            *_limits(work.limits),
            *self._environment(order, host, work),
            "--entrypoint",
            "",
            image_of(container, order),
            *words,
        ]

    def _environment(self, order: TaskOrder, host: TaskHost, work: Work) -> list[str]:
        given = host.container_environment_of(order, work)
        private = {name: value for name, value in given.items() if _is_read_by_client(name)}
        shared = {name: value for name, value in given.items() if name not in private}
        self.env |= shared
        words = [word for name in shared for word in ("--env", name)]
        if private:
            self._env_file = host.directory.fresh_step_file(order.path, order.attempt, "env")
            write_private(self._env_file, _as_env_file(private))
            words += ["--env-file", str(self._env_file.absolute())]
        return words

    def open_stdin(self) -> int:
        return os.open(self._stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    async def stop(self, child: Child, forced: Callable[[], bool]) -> None:
        own = {_ATTEMPT_LABEL: self._labels[_ATTEMPT_LABEL]}
        if not forced():
            await _signal(self._runtime, own, "TERM", self.env)
            await wait_for_end(child, GRACE_SECONDS, until=forced)
        await remove(self._runtime, own, self.env)
        await wait_for_end(child, GRACE_SECONDS)

    def problem(self, code: int) -> PlaceProblem | None:
        return None

    def warnings(self) -> list[str]:
        return []

    def close(self) -> None:
        if self._env_file is not None:
            self._env_file.unlink(missing_ok=True)


def image_of(container: Container, order: TaskOrder) -> str:
    return _checked("image", render(container.image, order.lookup), is_image)


def runtime_of(container: Container, environment: Mapping[str, str]) -> str:
    """The container program: the one that is named, else the first one that is installed."""
    names = (container.runtime,) if container.runtime is not None else RUNTIMES
    for name in names:
        with contextlib.suppress(OSError):
            return find_program(name, environment.get("PATH"), Path.cwd())
    raise EvaluationError(f"{' and '.join(names)} not found: the container cannot be started")


async def digest_of_image(
    container: Container, order: TaskOrder, environment: Mapping[str, str]
) -> str | None:
    """The identity of the image, whatever its name; None if it is not on this machine."""
    runtime = runtime_of(container, environment)
    shown = await _ask(
        [runtime, "image", "inspect", "--format", "{{.Id}}", image_of(container, order)], environment
    )
    return shown.strip().removeprefix("sha256:") or None


def run_label(run_id: str, host: TaskHost) -> str:
    return _short(host.directory.absolute, run_id)


def attempt_label(order: TaskOrder, host: TaskHost) -> str:
    return visit_label(order.run_id, order.visit, host)


def visit_label(run_id: str, visit: str, host: TaskHost) -> str:
    return _short(host.directory.absolute, run_id, visit)


async def remove_leftovers(
    host: TaskHost, run_id: str, visit: str | None, runtimes: frozenset[str | None]
) -> None:
    """Remove containers of a driver that was killed: those of the run, or of one attempt."""
    labels = (
        {_RUN_LABEL: run_label(run_id, host)}
        if visit is None
        else {_ATTEMPT_LABEL: visit_label(run_id, visit, host)}
    )
    for name in RUNTIMES:
        if name not in runtimes and None not in runtimes:
            continue
        with contextlib.suppress(OSError):
            await remove(
                find_program(name, host.environment.get("PATH"), Path.cwd()), labels, host.environment
            )


async def remove(runtime: str, labels: Mapping[str, str], environment: Mapping[str, str]) -> None:
    found = await _containers(runtime, labels, environment)
    if found:
        await _ask([runtime, "rm", "--force", *found], environment)


async def _signal(runtime: str, labels: Mapping[str, str], name: str, environment: Mapping[str, str]) -> None:
    found = await _containers(runtime, labels, environment)
    if found:
        await _ask([runtime, "kill", "--signal", name, *found], environment)


async def _containers(runtime: str, labels: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    filters = [word for name, value in labels.items() for word in ("--filter", f"label={name}={value}")]
    return (await _ask([runtime, "ps", "--all", "--quiet", *filters], environment)).split()


async def _ask(command: list[str], environment: Mapping[str, str]) -> str:
    """The output of the client; empty if it fails or does not answer."""
    # asyncio's own way, which is only fast enough for a few short commands, not for every step.
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), _CLIENT_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    return out.decode("utf-8", "replace") if process.returncode == 0 else ""


def _settings(container: Container, order: TaskOrder, runtime: str) -> list[str]:
    words: list[str] = []
    if container.network is not None:
        words += ["--network", _checked("network", render(container.network, order.lookup), is_network)]
    if container.user is not None:
        words += ["--user", _checked("user", render(container.user, order.lookup), is_user)]
    else:
        words += ["--user", f"{os.getuid()}:{os.getgid()}"]
        if os.getuid() != 0 and Path(runtime).name == "podman":
            # Rootless: the same user ids inside as outside, so that files of the workspace still belong to
            # the caller.
            words += ["--userns", "keep-id"]
    return [*words, "--pull", container.pull]


def _mounts(host: TaskHost) -> list[str]:
    folders = dict.fromkeys(
        str(folder.resolve()) for folder in (host.workspace, host.directory.artifacts, host.directory.outputs)
    )
    for folder in folders:
        if any(character in folder for character in ',"\n'):
            raise EvaluationError(f"the folder {folder!a} cannot be mounted: its name has a comma or a quote")
    return [word for folder in folders for word in ("--mount", f"type=bind,source={folder},target={folder}")]


def _limits(limits: Limits | None) -> list[str]:
    words: list[str] = []
    if limits is not None and limits.max_memory is not None:
        words += ["--memory", str(limits.max_memory), "--memory-swap", str(limits.max_memory)]
    if limits is not None and limits.max_cpu is not None:
        seconds = math.ceil(limits.max_cpu)
        words += ["--ulimit", f"cpu={seconds}:{seconds + 1}"]
    return words


def _is_read_by_client(name: str) -> bool:
    return name in _OF_THE_CLIENT or name.startswith(_PREFIXES_OF_THE_CLIENT)


def _as_env_file(variables: Mapping[str, str]) -> bytes:
    for name, value in variables.items():
        if "\n" in value:
            raise EvaluationError(f"the variable {name!a} of a container cannot have several lines")
    return "".join(f"{name}={value}\n" for name, value in variables.items()).encode()


def _checked(key: str, text: str, is_right: Callable[[str], bool]) -> str:
    """A value from a step or an input must not become an option of the client."""
    if not is_right(text):
        raise EvaluationError(f"'container' cannot have the {key} {shortened(text, 100)!a}")
    return text


def _short(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:32]
