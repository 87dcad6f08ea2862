"""What `podium registration` prints."""

import pytest

from podium.cli.registration_views import print_drift
from podium.operations.registration.reconciling import DriftReport


@pytest.mark.parametrize(
    ("compared", "kinds", "first_line"),
    [
        (3, {}, "3 nodes compared, 0 differences"),
        (1, {"consul_missing": 1}, "1 node compared, 1 difference"),
        (3, {"consul_missing": 1, "table_differs": 1}, "3 nodes compared, 2 differences"),
    ],
)
def test_a_comparison_of_the_catalogs_is_counted(
    compared: int, kinds: dict[str, int], first_line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_drift(DriftReport(compared, kinds, ()), as_json=False)
    assert capsys.readouterr().out.splitlines()[0] == first_line
