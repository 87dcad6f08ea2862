"""The clock for leases in a database file.

Processes share the file and the machine, so they share its boot-time clock: it continues while the machine is
suspended, and it cannot be set. It restarts with the machine; the boot id distinguishes the two.
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
    """Identifies this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
