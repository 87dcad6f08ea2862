"""The clock that leases in a file are measured by.

Processes share the file and the machine, so they share its boot-time clock: it continues while the machine sleeps,
and nobody can set it. After a restart it starts again; the boot id tells the two apart.
"""

import time
from datetime import UTC, datetime
from pathlib import Path


class BootClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Which start of the machine this is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
