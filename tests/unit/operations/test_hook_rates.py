"""How many deliveries of a hook are accepted in a minute."""

import pytest

from podium.operations.hooks.delivering import HookRateLimited, HookRates


def test_a_hook_takes_as_many_deliveries_a_minute_as_its_rate_and_others_are_not_counted() -> None:
    rates = HookRates()
    rates.take("a", 2, 0.0)
    rates.take("a", 2, 59.9)
    with pytest.raises(HookRateLimited, match="takes 2 deliveries a minute"):
        rates.take("a", 2, 59.95)
    rates.take("b", 2, 59.95)
    rates.take("a", 2, 60.0)
    rates.take("a", 2, 61.0)
    with pytest.raises(HookRateLimited):
        rates.take("a", 2, 119.0)
