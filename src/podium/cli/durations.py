"""Durations for people, as text and as bars."""


def spell_seconds(seconds: float) -> str:
    """`0.3 s`, `12 s`, `2 m 05 s`, `1 h 02 m`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} m"


def spell_elapsed(seconds: float) -> str:
    """The same in whole seconds, for text that is redrawn every second."""
    return f"{int(seconds)} s" if seconds < 60 else spell_seconds(int(seconds))


def bar(start: float, end: float, total: float, cells: int) -> str:
    """The position within the total: at least one cell."""
    if total <= 0:
        return "━"
    first = min(cells - 1, int(start / total * cells))
    last = max(first + 1, min(cells, round(end / total * cells)))
    return " " * first + "━" * (last - first)
