"""The breaker as a fold, for any sequence of calls, ends and pauses."""

from hypothesis import given
from hypothesis import strategies as st

from podium.nodes.breaker import (
    CLOSED,
    Admission,
    BreakerState,
    abandoned,
    admit,
    failed,
    phase_of,
    succeeded,
)
from podium.plan.plan import NodeBreaker

SETTINGS = NodeBreaker(failures=3, reset=60)
# What happens: a call is asked for, the oldest open one ends, or time passes.
HAPPENING = st.one_of(
    st.just("ask"), st.sampled_from(["succeed", "fail", "abandon"]), st.floats(min_value=0, max_value=90)
)


@given(st.lists(HAPPENING, max_size=60))
def test_never_more_than_one_probe_and_never_a_call_while_it_is_open(happenings: list[str | float]) -> None:
    state, now = CLOSED, 0.0
    under_way: list[Admission] = []
    for happening in happenings:
        if isinstance(happening, float):
            now += happening
        elif happening == "ask":
            phase = phase_of(state, SETTINGS, now)
            state, admission = admit(state, SETTINGS, now)
            assert (admission == "refused") == (
                phase == "open" or (phase == "half-open" and "probe" in under_way)
            )
            under_way += [admission] if admission != "refused" else []
        elif under_way:
            state = _ended(state, under_way.pop(0), happening, now)
        assert under_way.count("probe") == int(state.is_probing)
        assert state.failures <= SETTINGS.failures


def _ended(state: BreakerState, admission: Admission, how: str, now: float) -> BreakerState:
    match how:
        case "succeed":
            return succeeded(state, admission)
        case "fail":
            return failed(state, admission, SETTINGS, now)
        case _:
            return abandoned(state, admission)


@given(st.integers(min_value=1, max_value=20), st.floats(min_value=0, max_value=1e6))
def test_it_opens_with_the_last_of_so_many_failures_in_a_row(threshold: int, now: float) -> None:
    settings, state = NodeBreaker(failures=threshold, reset=60), CLOSED
    for number in range(1, threshold + 1):
        assert phase_of(state, settings, now) == "closed"
        state = failed(state, "call", settings, now)
        assert (phase_of(state, settings, now) == "open") == (number == threshold)
