"""A viewer of the dashboard: signed in by a link, on one kept connection."""

from __future__ import annotations

import http.client
from urllib.parse import urlencode


class Viewer:
    """Reads pages below /dashboard; for one thread."""

    def __init__(self, port: int, link: str) -> None:
        """`link`: the path of a one-time sign-in link."""
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        form = urlencode({"link": link.partition("link=")[2]})
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        self._http.request("POST", "/dashboard/sign-in", form, kind)
        answer = self._http.getresponse()
        answer.read()
        self._cookie = {"Cookie": str(answer.headers["Set-Cookie"]).partition(";")[0]}

    def get(self, path: str) -> bytes:
        """Read a page."""
        self._http.request("GET", f"/dashboard/{path}", headers=self._cookie)
        answer = self._http.getresponse()
        assert answer.status == 200, (path, answer.status)
        return answer.read()
