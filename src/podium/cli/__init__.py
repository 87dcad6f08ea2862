"""The command line: thin, it calls the other packages and prints.

Commands are imported when they are called, so that the start-up of one does not pay for all.
"""

import sys

import podium


def main() -> None:
    """The entry point `podium`."""
    if sys.argv[1:] == ["--version"]:
        # Scripts ask for the version often, and loading the command line takes five times as long as the answer.
        print(f"podium {podium.__version__}")
        return
    from podium.cli.app import run

    sys.exit(run(sys.argv[1:]))
