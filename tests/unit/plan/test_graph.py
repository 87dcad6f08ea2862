"""The one order of everything that has dependencies."""

import random
from graphlib import TopologicalSorter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.plan.graph import Ordering, order


def test_nothing_has_no_waves() -> None:
    assert order([]) == Ordering(waves=[], cycle=[])


def test_a_chain_has_one_node_per_wave() -> None:
    assert order([[], [0], [1]]).waves == [[0], [1], [2]]


def test_a_node_stands_in_the_first_wave_after_all_it_depends_on() -> None:
    assert order([[], [0], [1], [0, 2], [0]]).waves == [[0], [1, 4], [2], [3]]


def test_inside_a_wave_nodes_keep_the_order_of_declaration() -> None:
    # Node 3 is released by node 1 after node 4 was released by node 0: discovery order would be 4, 3.
    assert order([[], [], [0, 1], [1], [0]]).waves == [[0, 1], [2, 3, 4]]


def test_nodes_may_be_declared_before_what_they_depend_on() -> None:
    assert order([[2], [0], []]).waves == [[2], [0], [1]]


def test_a_repeated_dependency_counts_once() -> None:
    assert order([[], [0, 0, 0]]).waves == [[0], [1]]


@pytest.mark.parametrize(
    ("dependencies", "cycle"),
    [
        ([[0]], [0]),
        ([[1], [0]], [0, 1]),
        ([[1], [2], [0]], [0, 1, 2]),
        ([[2], [0], [1]], [0, 2, 1]),
        ([[], [0, 3], [1], [2]], [1, 3, 2]),
    ],
)
def test_a_cycle_is_named_from_its_first_declared_node_along_its_dependencies(
    dependencies: list[list[int]], cycle: list[int]
) -> None:
    assert order(dependencies).cycle == cycle


def test_a_node_behind_a_cycle_is_not_part_of_it() -> None:
    found = order([[1], [2], [1], []])
    assert found == Ordering(waves=[[3]], cycle=[1, 2])


def test_of_two_cycles_the_one_reached_from_the_first_declared_node_is_named() -> None:
    assert order([[3], [2], [1], [0]]).cycle == [0, 3]


def test_the_named_cycle_does_not_depend_on_the_order_inside_dependencies() -> None:
    assert order([[1, 2], [0], [0]]).cycle == order([[2, 1], [0], [0]]).cycle == [0, 1]


def test_a_dependency_outside_the_cycle_does_not_lead_the_search_astray() -> None:
    assert order([[], [0, 2], [0, 1]]).cycle == [1, 2]


def test_a_chain_of_fifty_thousand_nodes_is_ordered() -> None:
    chain = [[], *([node] for node in range(49_999))]
    assert [wave[0] for wave in order(chain).waves] == list(range(50_000))


def test_a_cycle_of_fifty_thousand_nodes_is_named() -> None:
    assert order([[(node + 1) % 50_000] for node in range(50_000)]).cycle == list(range(50_000))


def test_a_hundred_thousand_nodes_are_ordered() -> None:
    rng = random.Random(7)
    dependencies = [rng.sample(range(node), min(3, node)) for node in range(100_000)]
    place = {node: at for at, wave in enumerate(order(dependencies).waves) for node in wave}
    assert len(place) == 100_000
    assert all(place[needed] < place[node] for node, group in enumerate(dependencies) for needed in group)


graphs = st.integers(0, 12).flatmap(
    lambda size: st.lists(
        st.lists(st.integers(0, max(0, size - 1)), max_size=4), min_size=size, max_size=size
    )
)


@given(graphs)
def test_waves_and_cycle_agree_with_the_standard_library(dependencies: list[list[int]]) -> None:
    sorter = TopologicalSorter(dict(enumerate(dependencies)))
    found = order(dependencies)
    if found.cycle:
        with pytest.raises(ValueError, match="cycle"):
            sorter.prepare()
        following = [*found.cycle[1:], found.cycle[0]]
        assert all(b in dependencies[a] for a, b in zip(found.cycle, following, strict=True))
        assert len(set(found.cycle)) == len(found.cycle)
        assert found.cycle[0] == min(found.cycle)
        return
    sorter.prepare()
    expected = []
    while sorter.is_active():
        ready = sorter.get_ready()
        expected.append(sorted(ready))
        sorter.done(*ready)
    assert found.waves == expected
