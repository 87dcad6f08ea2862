"""The current state as a tree of lines that fit into a window: the steps that run or wait, in their loops.

It shows what the machine reports (`Progress`) and decides nothing about the run; it only decides which lines
to omit if the window is too small: first the output of steps, then steps of the same loop.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from rich.text import Text

from podium.cli.truncate import cut, cut_middle
from podium.machine.obligations import Obligation
from podium.machine.progress import LoopProgress, Progress
from podium.text import visible

_MAX_TAIL: Final = 3
# How many steps of one loop are shown, depending on the space.
_CHILDREN: Final = (1000, 12, 6, 3, 1)
_NAMES: Final = 0.45
_MIN_BAR: Final = 10
_MAX_BAR: Final = 40
# What only a person or the run as a whole waits for is not a running step.
_NOT_SHOWN: Final = frozenset({"limit", "hold", "record", "start", "plan_approval"})


class Leaf(NamedTuple):
    """The line of a running step."""

    obligation: Obligation
    # After its name: how long it has been running, or what it waits for.
    text: str
    style: str
    # A question ends with the answers that it takes.
    is_question: bool = False


class Node(msgspec.Struct):
    label: str
    loop: LoopProgress | None = None
    leaf: Leaf | None = None
    inner: "dict[str, Node]" = {}


class Window(NamedTuple):
    width: int
    height: int


def tree_of(progress: Progress, leaf_of: Callable[[Obligation], Leaf]) -> Node:
    root = Node("")
    for loop in progress.loops:
        _node_at(root, loop.path).loop = loop
    for one in progress.owed:
        if one.kind not in _NOT_SHOWN:
            _node_at(root, one.subject).leaf = leaf_of(one)
    return root


def _node_at(root: Node, path: str) -> Node:
    """`L#2[0]/A` is in the item `[0]` of `L`: the loop itself is reported without the number of its visit."""
    node = root
    for label in _labels(path):
        node = node.inner.setdefault(label, Node(label))
    return node


def _labels(path: str) -> Iterator[str]:
    for part in path.split("/"):
        name, bracket, index = part.partition("[")
        yield name.partition("#")[0] if bracket else part
        if bracket:
            yield f"[{index}"


def lines_of_tree(root: Node, window: Window, tails: Callable[[Obligation], Sequence[str]]) -> list[Text]:
    """At most as many lines as the window's height."""
    lines: list[Text] = []
    for most in _CHILDREN:
        lines = list(_lines(root, "", window, most, lambda _: ()))
        if len(lines) <= window.height:
            break
    leaves = sum(1 for _ in _running(root))
    room = min(_MAX_TAIL, (window.height - len(lines)) // max(1, leaves))
    if room > 0:
        return list(_lines(root, "", window, most, lambda one: tails(one)[-room:]))
    if len(lines) <= window.height:
        return lines
    shown = max(0, window.height - 1)
    return [*lines[:shown], Text(f"… {len(lines) - shown} more lines", style="dim")]


def _running(node: Node) -> Iterator[Node]:
    if node.leaf is not None and node.leaf.obligation.kind == "task":
        yield node
    for inner in node.inner.values():
        yield from _running(inner)


def _lines(
    node: Node, indent: str, window: Window, most: int, tails: Callable[[Obligation], Sequence[str]]
) -> Iterator[Text]:
    inner = list(node.inner.values())
    shown, hidden = inner[:most], len(inner) - most
    for number, child in enumerate(shown, 1):
        is_last = number == len(inner)
        one = _without_single_links(child)
        yield _line(one, f"{indent}{'└ ' if is_last else '├ '}", window.width)
        below = f"{indent}{'  ' if is_last else '│ '}"
        if one.leaf is not None and one.leaf.obligation.kind == "task":
            for text in tails(one.leaf.obligation):
                yield Text(f"{below}  {cut(visible(text), window.width - len(below) - 3)}", style="dim")
        yield from _lines(one, below, window, most, tails)
    if hidden > 0:
        yield Text(f"{indent}└ … {hidden} more", style="dim")


def _without_single_links(node: Node) -> Node:
    """`[3]` that contains only `Build` becomes one line: `[3]/Build`."""
    while node.loop is None and node.leaf is None and len(node.inner) == 1:
        (only,) = node.inner.values()
        node = Node(
            f"{node.label}/{only.label}" if node.label else only.label, only.loop, only.leaf, only.inner
        )
    return node


def _line(node: Node, indent: str, width: int) -> Text:
    line = Text(indent, style="dim", no_wrap=True, overflow="crop", end="")
    room = max(8, int((width - len(indent)) * _NAMES))
    line.append(cut_middle(visible(node.label), room), style="bold" if node.loop is not None else "default")
    line.append("  ")
    if node.loop is not None:
        _append_bar(line, node.loop, width)
    elif node.leaf is not None:
        shorten = cut_middle if node.leaf.is_question else cut
        line.append(shorten(node.leaf.text, width - line.cell_len), style=node.leaf.style)
    line.truncate(width, overflow="crop")
    return line


def _append_bar(line: Text, loop: LoopProgress, width: int) -> None:
    counted = f" {loop.done}/{loop.total}" if loop.total else f"{loop.done} done"
    failed = f", {loop.failed} failed" if loop.failed else ""
    cells = min(_MAX_BAR, max(_MIN_BAR, width // 3), width - line.cell_len - len(counted + failed) - 1)
    if loop.total and cells >= _MIN_BAR:
        good, bad = bar_of(loop, cells)
        line.append("━" * good, style="green")
        line.append("━" * bad, style="red")
        line.append("─" * (cells - good - bad), style="dim")
    line.append(counted, style="cyan")
    line.append(failed, style="red")


def bar_of(loop: LoopProgress, cells: int) -> tuple[int, int]:
    """How many cells are done, and how many of them failed: a single failure is visible, however many items
    there are.
    """
    done = loop.done * cells // loop.total
    bad = min(done, max(1, round(loop.failed * cells / loop.total))) if loop.failed else 0
    return done - bad, bad
