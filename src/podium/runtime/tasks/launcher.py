"""Sets the limits of a process and then executes the program: `launcher.py MEMORY CPU PROGRAM ARGV...`.

Run as a script, by a new interpreter without site packages; it imports nothing of Podium. Zero means no
limit.
"""

import math
import os
import resource
import signal
import sys


def main() -> None:
    memory, cpu = int(sys.argv[1]), float(sys.argv[2])
    # Python ignores these two, and the program would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    if memory:
        _limit(resource.RLIMIT_AS, memory, memory)
    if cpu:
        seconds = math.ceil(cpu)
        # One second before it is killed: SIGXCPU says why it ended, SIGKILL does not.
        _limit(resource.RLIMIT_CPU, seconds, seconds + 1)
    program = sys.argv[3]
    try:
        os.execv(program, sys.argv[4:])
    except OSError as error:
        print(f"podium: {program!r} cannot be started: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def _limit(what: int, soft: int, hard: int) -> None:
    _, most = resource.getrlimit(what)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(what, (soft, hard))


if __name__ == "__main__":
    main()
