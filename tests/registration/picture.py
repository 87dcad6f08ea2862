"""What Consul and the tables have, read as other systems read it."""

import json
import urllib.parse
import urllib.request
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from tests.registration.checker import Picture
from tests.registration.traffic import Recorder

_SECONDS: Final = 30
# Consul's own.
_SERVERS: Final = "consul"


def take_picture(consul: str, conninfo: str, recorder: Recorder) -> Picture:
    """After `recorder.catch_up()`, which waits for what is published."""
    return Picture(
        services_of(consul),
        rows_of(conninfo, "node_registrations"),
        rows_of(conninfo, "registration_projection"),
        list(recorder.events),
        list(recorder.dead),
    )


def services_of(address: str) -> list[dict[str, Any]]:
    """Those of all nodes of the catalog."""
    found = []
    for node in _get(address, "/v1/catalog/nodes"):
        name = urllib.parse.quote(node["Node"], safe="")
        services = _get(address, f"/v1/catalog/node-services/{name}")["Services"] or ()
        found += [{**one, "Node": node["Node"]} for one in services if one["Service"] != _SERVERS]
    return found


def rows_of(conninfo: str, table: str) -> list[dict[str, Any]]:
    with psycopg.connect(conninfo, row_factory=dict_row, connect_timeout=_SECONDS) as connection:
        query = f"SELECT * FROM podium_registration.{table} ORDER BY node_id"
        return connection.execute(query.encode()).fetchall()


def _get(address: str, path: str) -> Any:
    with urllib.request.urlopen(f"{address}{path}", timeout=_SECONDS) as answer:
        return json.load(answer)
