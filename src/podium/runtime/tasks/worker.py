"""The process that executes Python steps: it calls functions, one after the other, until its socket is
closed.

Run as a script; it imports nothing of Podium. Its standard input is a socket: each incoming line is a call as
JSON, with two descriptors to print to; each outgoing line is its result. Between calls nothing can be printed
anywhere. Modules stay imported and keep their state.
"""

import asyncio
import contextlib
import importlib
import inspect
import json
import os
import socket
import sys
import traceback
from typing import Any

MAX_RESULT = 1024 * 1024
_BASE_PATH = list(sys.path)
_IDLE = "podium-python"


def main() -> None:
    control = socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    own = (sys.stdout, sys.stderr)
    for stream in own:
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    while (received := _receive(control)) is not None:
        call, descriptors = received
        for number, descriptor in enumerate(descriptors, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdout, sys.stderr = own
        _become(call["name"])
        answer = _answer(call)
        _become(_IDLE)
        for stream in (sys.stdout, sys.stderr, *own):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        for number in (1, 2):
            os.dup2(nowhere, number)
        control.sendall(answer + b"\n")


def _become(name: str) -> None:
    """Set the name of this process to the attempt it works for, so that it can be found if it is left behind."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as file:  # noqa: PTH123 - no pathlib here
        file.write(name)


def _receive(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next call; None when there will be no more."""
    data, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 2)
    parts = [data]
    while data and not data.endswith(b"\n"):
        data = control.recv(1 << 16)
        parts.append(data)
    return (json.loads(b"".join(parts)), descriptors) if data else None


def _answer(call: dict[str, Any]) -> bytes:
    os.environ.clear()
    os.environ.update(call["env"])
    os.chdir(call["cwd"])
    more = [path for path in call["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [call["cwd"], *more, *_BASE_PATH]
    importlib.invalidate_caches()
    try:
        function = _find(call["function"])
        result = function(**call["args"])
        if inspect.isawaitable(result):
            result = asyncio.run(_awaited(result))
        return _encode_result(result)
    except _NotThere as error:
        return _failed("not_there", str(error))
    except BaseException as error:
        # Also SystemExit and KeyboardInterrupt: a function ends, the worker does not.
        _print_traceback(error)
        return _failed("raised", _described(error))


async def _awaited(result: Any) -> Any:
    return await result


class _NotThere(Exception):
    pass


def _find(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise  # it exists, but imports another one that does not
        raise _NotThere(
            f"module {error.name!r} not found; it is looked for in the working directory first"
        ) from None
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise _NotThere(f"the module {module!r} has no {path!r}") from None
    if not callable(found):
        raise _NotThere(f"{path!r} of the module {module!r} is not a function")
    return found


def _encode_result(result: Any) -> bytes:
    try:
        text = json.dumps(result, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return _failed("not_json", f"the function returned a value that is not JSON: {error}")
    if len(text) > MAX_RESULT:
        return _failed(
            "not_json", f"the function returned {len(text)} bytes of JSON; at most {MAX_RESULT} are handed on"
        )
    return b'{"result": ' + text + b"}"


def _failed(kind: str, message: str) -> bytes:
    return json.dumps({"failed": kind, "message": message[:10_000]}).encode()


def _described(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(no text)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _print_traceback(error: BaseException) -> None:
    """Omits the frames of this file, which do not help the user."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    try:
        traceback.print_exception(type(error), error, frames)
    except Exception:
        print(_described(error), file=sys.stderr)


if __name__ == "__main__":
    main()
