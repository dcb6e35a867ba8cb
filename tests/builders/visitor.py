"""A reader of a zone's dashboard: keeps cookies, and sends forms with what their pages have in them."""

from __future__ import annotations

import re
from typing import Any

from werkzeug.test import TestResponse

from tests.builders.tree import Node
from zonesched.dashboard.mounting import add_dashboard

TOKEN = re.compile(r'name="form_token" value="([0-9a-f]+)"')


class Visitor:
    """One browser at one zone, whose application gets the dashboard."""

    def __init__(self, node: Node, *, address: str = "127.0.0.1") -> None:
        add_dashboard(node.app)
        self._node = node
        self._client = node.app.test_client()
        self._client.environ_base["REMOTE_ADDR"] = address

    def get(self, path: str, **headers: str) -> TestResponse:
        """Read a page below /dashboard."""
        return self._client.get(f"/dashboard{path}", headers=_headers(headers))

    def text(self, path: str) -> str:
        """The HTML of a page that is shown."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def send(self, path: str, form: dict[str, Any], **headers: str) -> TestResponse:
        """Send a form as it is."""
        return self._client.post(f"/dashboard{path}", data=form, headers=_headers(headers))

    def post(self, path: str, on: str = "", **fields: Any) -> TestResponse:
        """Send a form with the token of the page `on`, the form's own by default."""
        return self.send(path, {"form_token": self.form_token(on or path), **fields})

    def form_token(self, path: str) -> str:
        """The token in the forms of a page."""
        found = TOKEN.search(self.text(path))
        assert found is not None
        return found[1]

    def sign_in(self, user: str = "admin", **fields: str) -> TestResponse:
        """Sign in with the user's secret."""
        form = {"user": user, "password": self._node.secrets.get(user, ""), **fields}
        return self.send("/sign-in", form)


def _headers(named: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in named.items()}
