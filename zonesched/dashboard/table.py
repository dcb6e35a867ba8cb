"""The table of the dashboard's pages: method, path and handler, one line each."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.dashboard.pages import (
    aggregates,
    audit,
    boot_form,
    boots,
    flavors,
    heat,
    hosts,
    limits,
    news,
    servers,
    tree,
    users,
)
from zonesched.dashboard.visit import Handler


@dataclass(frozen=True)
class PageRoute:
    """One page; a POST comes with the form token of its session. The API decides who may see or do what.

    The page of a form has the same path: its query fills in a form that was not carried out.
    """

    method: str
    path: str
    handler: Handler
    is_live: bool = False
    """Whether the page reads itself again when anything has changed."""

    @property
    def endpoint(self) -> str:
        return f"{self.method} {self.path}"


# fmt: off
PAGES: tuple[PageRoute, ...] = (
    PageRoute("GET", "/dashboard/", tree.first),
    PageRoute("GET", "/dashboard/news", news.show),
    PageRoute("GET", "/dashboard/tree", tree.show, is_live=True),
    PageRoute("GET", "/dashboard/hosts", hosts.list_all, is_live=True),
    PageRoute("GET", "/dashboard/hosts/layout", heat.layout),
    PageRoute("GET", "/dashboard/hosts/heat", heat.values),
    PageRoute("GET", "/dashboard/hosts/named", heat.named),
    PageRoute("GET", "/dashboard/hosts/<id>", hosts.show, is_live=True),
    PageRoute("POST", "/dashboard/hosts/<id>", hosts.change, is_live=True),
    PageRoute("GET", "/dashboard/boots", boots.list_all, is_live=True),
    PageRoute("GET", "/dashboard/boots/<id>", boots.show, is_live=True),
    PageRoute("GET", "/dashboard/boot", boot_form.show),
    PageRoute("POST", "/dashboard/boot", boot_form.send),
    PageRoute("GET", "/dashboard/servers", servers.list_all, is_live=True),
    PageRoute("GET", "/dashboard/servers/<id>", servers.show, is_live=True),
    PageRoute("POST", "/dashboard/servers/<id>", servers.act),
    PageRoute("GET", "/dashboard/flavors", flavors.list_all),
    PageRoute("POST", "/dashboard/flavors", flavors.change),
    PageRoute("GET", "/dashboard/limits", limits.show),
    PageRoute("GET", "/dashboard/aggregates", aggregates.list_all),
    PageRoute("POST", "/dashboard/aggregates", aggregates.change),
    PageRoute("GET", "/dashboard/users", users.list_all),
    PageRoute("POST", "/dashboard/users", users.change),
    PageRoute("GET", "/dashboard/audit", audit.show),
)
# fmt: on
