"""What is sent to the shell of the other machine: a constant command line, and a script on standard input.

Values of a workflow are only in the script, so `ps` on either machine does not show them. The script starts
the command in a session of its own and then waits for its end, or for ours: a line on standard input, or its
end, means that the command has to end, as it does when the connection breaks. Processes that the command
leaves behind are ended with it.
"""

import math
from collections.abc import Mapping, Sequence
from secrets import token_hex
from shlex import quote
from typing import Final

from podium.plan.plan import Limits

# Reads the script up to a delimiter line that is sent first. One line without inner quotes, because the
# user's login shell parses it.
BOOTSTRAP: Final = (
    'exec sh -c \'n=$(printf "\\n."); n=${n%.}; s=; l=; IFS= read -r e || exit 255; '
    'while IFS= read -r l; do test "$l" = "$e" && break; s="$s$l$n"; done; '
    'test "$l" = "$e" || exit 255; eval "$s"\''
)
STOP: Final = b"TERM\n"
KILL: Final = b"KILL\n"
MARK: Final = "PODIUM_REMOTE"

_FUNCTIONS: Final = """\
podium_marked() { grep -lsxzF -e "$podium_mark" /proc/[0-9]*/environ | tr -dc '0-9\\n'; }
podium_signal() {
  test -z "$podium_child" || kill -s "$1" -- "-$podium_child" || kill -s "$1" "$podium_child"
  for podium_pid in $(podium_marked); do kill -s "$1" "$podium_pid"; done
}
podium_is_left() {
  { test -n "$podium_child" && kill -s 0 -- "-$podium_child"; } || test -n "$(podium_marked)"
}
podium_kill() {
  podium_looks=0
  while podium_is_left && test "$podium_looks" -lt 100; do
    podium_signal KILL
    podium_looks=$((podium_looks + 1))
    sleep 0.05 || sleep 1
  done
}
podium_stop() {
  podium_signal TERM
  podium_signal CONT
  podium_looks=0
  while podium_is_left && test "$podium_looks" -lt 50; do
    podium_looks=$((podium_looks + 1))
    sleep 0.1 || sleep 1
  done
  podium_kill
}
exec 3<&0 4>&2 </dev/null 2>/dev/null
podium_child=
podium_is_left && podium_stop
podium_setsid=
if command -v setsid >/dev/null; then podium_setsid=setsid; else set -m; fi
"""
_WATCH: Final = """\
podium_child=$!
(
  exec >/dev/null 4>&-
  IFS= read -r podium_order <&3
  if test "$podium_order" = KILL; then podium_kill; else podium_stop; fi
) &
podium_watcher=$!
exec 3<&-
wait "$podium_child"
podium_code=$?
podium_is_left && podium_stop
kill "$podium_watcher"
exit "$podium_code"
"""


def script_of(
    argv: Sequence[str], env: Mapping[str, str], *, mark: str, workdir: str | None, limits: Limits | None
) -> bytes:
    """`mark`: identifies all processes of the step; those of a lost attempt are ended first."""
    command = [
        "(",
        "exec 2>&4 3<&- 4>&-",
        *([f"cd -- {quote(workdir)} || exit 125"] if workdir is not None else []),
        *_limits(limits),
        *(f"export {name}={quote(value)}" for name, value in env.items()),
        f"export {MARK}={mark}",
        f"exec $podium_setsid {' '.join(map(quote, argv))}",
        ") &",
    ]
    text = "\n".join([f"podium_mark={MARK}={mark}", _FUNCTIONS + command[0], *command[1:], _WATCH])
    end = token_hex(16)
    return f"{end}\n{text}\n{end}\n".encode("utf-8", "surrogateescape")


def _limits(limits: Limits | None) -> list[str]:
    if limits is None:
        return []
    set_limits = []
    if limits.max_memory is not None:
        set_limits.append(f"ulimit -v {max(1, limits.max_memory // 1024)} || exit 125")
    if limits.max_cpu is not None:
        seconds = math.ceil(limits.max_cpu)
        # One second before it is killed, as for commands on this machine.
        set_limits.append(f"ulimit -S -t {seconds} && ulimit -H -t {seconds + 1} || exit 125")
    return set_limits
