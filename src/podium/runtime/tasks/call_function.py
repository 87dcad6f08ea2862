"""Calls one function: `call_function.py MODULE:FUNCTION`, arguments as JSON on standard input.

Run as a script in a process of its own; it imports nothing of Podium. The result is written beside PODIUM_OUTPUT, so
that whatever the function prints is output and nothing else.
"""

import importlib
import inspect
import json
import os
import sys
from pathlib import Path


def main() -> None:
    module, _, name = sys.argv[1].partition(":")
    arguments = json.load(sys.stdin)
    function = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    result = function(**arguments)  # type: ignore[operator]
    if inspect.isawaitable(result):
        import asyncio

        async def awaited() -> object:
            return await result

        result = asyncio.run(awaited())
    Path(os.environ["PODIUM_OUTPUT"]).with_suffix(".result").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
