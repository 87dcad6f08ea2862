"""Regular expressions that are compiled when they are first used.

Compiling all of them takes several milliseconds, and a command uses only a few.
"""

import re
from typing import Any, AnyStr, cast


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A pattern for module level. An error in `source` is raised at its first use."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(source, flags))


class _LazyPattern:
    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Called only at the first use of each method: later calls find the attribute that `setattr` stored."""
        found = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found
