"""One visit of a page by somebody who is signed in, and what a page may answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flask import g

from zonesched.api.call import Site
from zonesched.api.inner_call import InnerCall, perform
from zonesched.model.caller import Caller, Role
from zonesched.model.page_link import next_marker
from zonesched.services.zone import Zone


@dataclass(frozen=True)
class Form:
    """Fields of a form as they came, each with its values in order."""

    unverified: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def get(self, name: str) -> str:
        """Return the first value without surrounding spaces, "" without one."""
        return self.exact(name).strip()

    def exact(self, name: str) -> str:
        """Return the first value with all its spaces, as a password needs it; "" without one."""
        return next(iter(self.unverified.get(name, ())), "")


@dataclass(frozen=True)
class Visit:
    """A page's input. `args`: parts of the path; `base_url`: scheme and host as the reader knows them."""

    site: Site
    caller: Caller
    form_token: str
    args: Mapping[str, str]
    query: Mapping[str, str]
    form: Form
    base_url: str
    is_wanted: Callable[[], bool]

    @property
    def zone(self) -> Zone:
        return self.site.zone

    @property
    def is_admin(self) -> bool:
        return self.caller.role is Role.ADMIN

    @property
    def may_write(self) -> bool:
        return self.caller.role in (Role.ADMIN, Role.MEMBER)

    def read(self, path: str, /, **query: str) -> Any:
        """Ask the zone's API as the reader. Raises ZoneschedError as the API refuses.

        A parameter without a value is left out.
        """
        given = {name: value for name, value in query.items() if value}
        return self._perform(InnerCall("GET", path, given, is_wanted=self.is_wanted))

    def read_all(self, path: str, noun: str, /, **query: str) -> list[Any]:
        """Read all pages of a list. Raises as `read`."""
        found: list[Any] = []
        while True:
            page = self.read(path, **query)
            found += page[noun]
            if not (marker := next_marker(page, noun)):
                return found
            query["marker"] = marker

    def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Change something by the zone's API as the reader. Raises as `read`."""
        # What the audit log says of this visit.
        g.action = f"{method} {path}"[:255]
        return self._perform(
            InnerCall(method, path, body=body or {}, headers=headers or {}, is_wanted=self.is_wanted)
        )

    def _perform(self, asked: InnerCall) -> Any:
        return perform(self.site, self.caller, asked)

    def everybody(self) -> dict[str, str]:
        """Return the query that shows an admin all projects."""
        return {"all_tenants": "true"} if self.is_admin else {}


@dataclass(frozen=True)
class Page:
    """A template with its values. `is_kept`: Back shows it as it was, in place of a new one."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    is_kept: bool = False


@dataclass(frozen=True)
class Redirect:
    """Another page to go to, after a form."""

    to: str


@dataclass(frozen=True)
class Data:
    """Bytes for a script of the page."""

    content: bytes
    media_type: str


Result = Page | Redirect | Data
Handler = Callable[[Visit], Result]
