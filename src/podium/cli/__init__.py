"""The command line: it is thin, calls the other packages and prints.

Commands are imported when they are called, so that the start-up of one does not pay for all.
"""

import gc
import sys

import podium


def main() -> None:
    """The entry point `podium`."""
    if sys.argv[1:] == ["--version"]:
        # Scripts ask for the version often, and importing the command line takes five times as long as the
        # answer.
        try:
            print(f"podium {podium.__version__}", flush=True)
            return
        except OSError:
            pass  # happens again below, and is reported there
    # What is imported lives as long as the process: repeated garbage collections of it take a tenth of the
    # start-up time. `run` imports the commands and enables garbage collection after that.
    gc.disable()
    import signal

    # Ctrl-C while modules are imported ends the process immediately: nothing has been done yet, and the
    # traceback of an import helps no user. `run` handles Ctrl-C after that. Where SIGINT is ignored
    # (`nohup`), it remains ignored.
    interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interrupts:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from podium.cli.app import run

    if interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))
