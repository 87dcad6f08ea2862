"""Every list has pages whose cursor stays valid when something is added or removed."""

from typing import Any, Final

import pytest

from tests.server.site import FLOW, Site

ADDED: Final = ("b", "d", "f", "h")


def add(site: Site, kind: str, name: str) -> None:
    plan = site.publish(FLOW)["sha256"]
    match kind:
        case "hooks":
            body: Any = {"name": f"in-{name}", "plan": plan, "secret": "S"}
        case "webhooks":
            body = {"name": f"out-{name}", "url": "https://chat.example.com/x", "secret": "S"}
        case "tokens":
            body = {"name": name, "roles": ["viewer"]}
        case _:
            body = {"scope": "plan", "name": f"plan-{name}", "limit": 3}
    method = "PUT" if kind == "limits" else "POST"
    role = "owner" if kind == "tokens" else "admin"
    assert site.ask(method, f"/api/v1/{kind}", role=role, json=body).status in (200, 201)


def names(page: Any, kind: str) -> list[str]:
    return [one["name"] for one in page[kind]]


@pytest.mark.parametrize("kind", ["hooks", "webhooks", "tokens", "limits"])
def test_a_list_is_read_in_pages_that_stay_valid(site: Site, kind: str) -> None:
    for name in ADDED:
        add(site, kind, name)
    role = "owner" if kind == "tokens" else "viewer"
    whole = site.get(f"/{kind}", role=role).json
    assert whole["cursor"] is None
    read: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        query = f"?limit=1&cursor={cursor}" if cursor else "?limit=1"
        page = site.get(f"/{kind}{query}", role=role).json
        assert len(page[kind]) == 1
        read, cursor = read + names(page, kind), page["cursor"]
        if len(read) == 2:
            add(site, kind, "a")
    later = [name for name in read if not name.endswith("a")]
    assert later == names(whole, kind)
    assert site.get(f"/{kind}?limit=501", role=role).status == 400


@pytest.mark.parametrize("path", ["/tenants", "/workers"])
def test_these_lists_have_pages_too(site: Site, path: str) -> None:
    answer = site.get(f"{path}?limit=1&cursor=zzz", role="owner")
    assert (answer.status, answer.json["cursor"]) == (200, None)
