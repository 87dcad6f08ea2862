"""The command line: thin, it calls the other packages and prints.

Commands are imported when they are called, so that the start-up of one does not pay for all.
"""

import gc
import sys

import podium


def main() -> None:
    """The entry point `podium`."""
    if sys.argv[1:] == ["--version"]:
        # Scripts ask for the version often, and loading the command line takes five times as long as the answer.
        print(f"podium {podium.__version__}")
        return
    # What is imported lives as long as the process: looking through it for garbage again and again is a tenth of the
    # start. The commands are imported by `run`, which begins to collect when they have been.
    gc.disable()
    from podium.cli.app import run

    sys.exit(run(sys.argv[1:]))
