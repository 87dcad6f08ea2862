"""`podium audit verify` finds what was done to a database by somebody who does not have the key."""

import pytest

from tests.acceptance.audit_databases import (
    Database,
    database,
    fill,
    key_of,
    kinds,
    place,
    read,
    verify,
    write,
)
from tests.acceptance.podium import Place
from tests.audit_attacks import ATTACKS, Attack

__all__ = ["database", "place"]


@pytest.mark.rule("G36")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_what_was_done_to_a_database_is_found(place: Place, database: Database, attack: Attack) -> None:
    fill(database.url, key_of(place))
    fill(database.url, key_of(place), tenant="other", count=2)
    records, head = read(database)
    write(database, attack.do(records, head, 3))
    found = verify(place, "--store", database.url, code=65)
    assert attack.kinds & kinds(found), found
    assert {finding["tenant"] for finding in found["findings"]} == {"acme"}
