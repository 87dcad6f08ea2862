"""Sets the limits of a process and becomes the program: `launcher.py MEMORY CPU PROGRAM ARGV...`.

Run as a script, by a fresh interpreter without site packages; it imports nothing of Podium. Zero is no limit.
"""

import os
import resource
import sys


def main() -> None:
    memory, cpu = int(sys.argv[1]), float(sys.argv[2])
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    if cpu:
        seconds = max(1, round(cpu))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    os.execv(sys.argv[3], sys.argv[4:])


if __name__ == "__main__":
    main()
