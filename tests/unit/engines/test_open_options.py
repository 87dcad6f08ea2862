"""`podium.open` with another engine: what is refused before anything is opened."""

from typing import Any

import pytest

import podium


@pytest.mark.rule("D69", "CN13")
@pytest.mark.parametrize("engine", ["temporal", "conductor"])
def test_functions_of_a_program_do_not_reach_workers(engine: Any) -> None:
    with pytest.raises(ValueError, match="workers do not have them"):
        podium.open(engine=engine, functions={"f": lambda: 1})


@pytest.mark.rule("CN13")
@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("temporal", {"url": "http://127.0.0.1:8080"}),
        ("conductor", {"address": "127.0.0.1:7233"}),
        ("conductor", {"namespace": "default"}),
    ],
)
def test_the_place_of_another_engine_is_refused(engine: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="url is for engine='conductor'"):
        podium.open(engine=engine, **options)
