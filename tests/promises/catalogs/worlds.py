"""Catalogs to be tested, each with a part of the server of its own."""

import json
import urllib.request
from uuid import uuid4

from podium.catalogs.consul import ConsulServices
from podium.catalogs.consul_settings import ConsulConnection, parse_address


def consul_at(address: str, token: str = "", *, node: str = "", seconds: float = 30.0) -> ConsulServices:
    """With an external node of its own, unless one is named."""
    connection = ConsulConnection(parse_address(address), {"PODIUM_CONSUL_TOKEN": token} if token else {})
    return ConsulServices(connection, node or f"test-{uuid4().hex}", seconds=seconds)


def remove_nodes(address: str, node: str) -> None:
    """With all its services: the server may be one that was given."""
    with urllib.request.urlopen(f"{address}/v1/catalog/nodes?node-meta=podium-installation:{node}") as answer:
        names = [one["Node"] for one in json.load(answer)]
    for name in names:
        body = json.dumps({"Node": name}).encode()
        request = urllib.request.Request(f"{address}/v1/catalog/deregister", body, method="PUT")
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
