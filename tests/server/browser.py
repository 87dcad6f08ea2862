"""A browser of a test: it keeps cookies and writes the headers that browsers write."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from tests.server.site import Answer, Site

HOST = "podium.test"


class Browser:
    def __init__(self, site: Site, scheme: str = "http") -> None:
        self._site = site
        self.origin = f"{scheme}://{HOST}"
        self.cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, **options: Any) -> Answer:
        """`headers` with the value "" are left out."""
        sent = {"host": HOST, "accept": "text/html,*/*", **(headers or {})}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        given = {name: value for name, value in sent.items() if value}
        answer = self._site.ask(method, path, role=None, headers=given, **options)
        self._keep(answer.headers.get("set-cookie", ""))
        return answer

    def _keep(self, setting: str) -> None:
        name, _, rest = setting.partition("=")
        value = rest.partition(";")[0]
        if name and value:
            self.cookies[name] = value
        else:
            self.cookies.pop(name, None)

    def get(self, path: str, **options: Any) -> Answer:
        return self.ask("GET", path, **options)

    def log_in(self, **form: str) -> Answer:
        headers = {"origin": self.origin, "content-type": "application/x-www-form-urlencoded"}
        return self.ask("POST", "/login", headers, body=urlencode(form).encode())

    def change(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **options: Any
    ) -> Answer:
        """As our own page does it."""
        own = {"origin": self.origin, "sec-fetch-site": "same-origin", "podium-request": "1"}
        return self.ask(method, path, {**own, **(headers or {})}, **options)
