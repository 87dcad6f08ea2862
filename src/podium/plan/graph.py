"""The order in which things run that depend on each other.

Everything in Podium that has dependencies is ordered here and nowhere else: node contracts, `depends_on`
blocks, the drawing of a graph. There is one order: *waves*. A node is in the first wave after those of all
its dependencies, and inside a wave nodes keep the order in which they were declared. Nothing else breaks
ties, so the same declaration gives the same order in any process at any time.

Nodes are the integers 0..n-1 in declaration order; callers keep the names. Time and memory are O(V + E), and
nothing is recursive, so the length of a chain is not limited.
"""

from collections.abc import Collection, Sequence

import msgspec


class Ordering(msgspec.Struct, frozen=True):
    """The result of `order`: the waves, and one cycle if there is any.

    If `cycle` is not empty, `waves` holds only the nodes that do not depend on a cycle.
    """

    waves: list[list[int]]
    cycle: list[int]


def order(dependencies: Sequence[Collection[int]]) -> Ordering:
    """Order the nodes into waves; `dependencies[node]` are the nodes it depends on, repeats allowed."""
    dependents: list[list[int]] = [[] for _ in dependencies]
    # A repeated dependency is counted twice here and counted down twice below, so it needs no special case.
    unmet = [len(needed) for needed in dependencies]
    for node, needed in enumerate(dependencies):
        for dependency in needed:
            dependents[dependency].append(node)

    waves: list[list[int]] = []
    ordered = 0
    wave = [node for node, count in enumerate(unmet) if count == 0]
    while wave:
        waves.append(wave)
        ordered += len(wave)
        released: list[int] = []
        for node in wave:
            for dependent in dependents[node]:
                left = unmet[dependent] - 1
                unmet[dependent] = left
                if left == 0:
                    released.append(dependent)
        released.sort()
        wave = released

    return Ordering(waves, [] if ordered == len(unmet) else _one_cycle(dependencies, unmet))


def _one_cycle(dependencies: Sequence[Collection[int]], unmet: list[int]) -> list[int]:
    """Return one cycle: each node depends on the next, the last on the first.

    A depth-first search over the nodes that could not be ordered, in declaration order. Each of them depends
    on another one of them (else it would have been ordered), so the search never has to backtrack: it
    continues until it reaches a node that is already on its path.
    """
    node = next(node for node, count in enumerate(unmet) if count)
    place_on_path: dict[int, int] = {}
    while node not in place_on_path:
        place_on_path[node] = len(place_on_path)
        node = min(dependency for dependency in dependencies[node] if unmet[dependency])
    cycle = list(place_on_path)[place_on_path[node] :]
    # Rotated to start at the node that was declared first, so that the same cycle is always reported in the
    # same way.
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]
