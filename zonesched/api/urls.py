"""The table of all calls of a zone: URL, roles, body, query and answer, one line each.

Two lines with the same URL and method are for different roles. The application serves each line at `/` and
under `/v2.1`. The OpenAPI document and the tests of roles are made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.api import (
    aggregates,
    audit,
    availability_zones,
    flavors,
    health,
    hosts,
    hypervisors,
    images,
    limits,
    reservations,
    server_groups,
    servers,
    services,
    users,
    versions,
    zones,
)
from zonesched.api.call import Handler
from zonesched.api.links import PREFIX
from zonesched.api.schemas.aggregates import AggregateActionBody, ChangeAggregateBody, NewAggregateBody
from zonesched.api.schemas.audit import AuditQuery, RepairBody, ReportedAuditQuery
from zonesched.api.schemas.builds import AttemptsBody, BuildBody
from zonesched.api.schemas.fields import Schema
from zonesched.api.schemas.flavors import ExtraSpecsBody, FlavorBody
from zonesched.api.schemas.hosts import (
    BeatBody,
    ExcessesBody,
    InstancesQuery,
    RegisterBody,
    ReportsBody,
)
from zonesched.api.schemas.hypervisors import HypervisorBody
from zonesched.api.schemas.images import ImageBody
from zonesched.api.schemas.limits import ParentLimitsBody, ProjectLimitsBody
from zonesched.api.schemas.reservations import BootsQuery, ChangesQuery, WhyQuery
from zonesched.api.schemas.select import SelectBody
from zonesched.api.schemas.server_groups import GroupsQuery, ServerGroupBody
from zonesched.api.schemas.servers import BootBody, CreateBody, ListQuery
from zonesched.api.schemas.services import (
    DisableBody,
    ForceDownBody,
    NamedServiceBody,
    ServiceBody,
    ServicesQuery,
)
from zonesched.api.schemas.users import ChangeUserBody, OwnPasswordBody, RemoveUserQuery, UserBody
from zonesched.api.schemas.zones import AddZoneBody, ChangeZoneBody, RemoveQuery
from zonesched.model.caller import Role

MOUNTS = ("", PREFIX)

ADMIN = frozenset({Role.ADMIN})
USERS = frozenset({Role.ADMIN, Role.MEMBER})
PEOPLE = USERS | {Role.READER}
PARENT = frozenset({Role.PARENT})
AGENT = frozenset({Role.COMPUTE})
OPEN: frozenset[Role] = frozenset(Role)


class NoQuery(Schema):
    """No parameters."""


@dataclass(frozen=True)
class Route:
    """One call. `roles` of OPEN: no credentials are needed."""

    method: str
    path: str
    handler: Handler
    roles: frozenset[Role]
    answer: str
    body: type[Schema] | None = None
    query: type[Schema] = NoQuery
    status: int = 200
    mounts: tuple[str, ...] = MOUNTS

    @property
    def is_open(self) -> bool:
        return self.roles == OPEN

    @property
    def is_admin_api(self) -> bool:
        """True for a call that `allow_admin_api = false` closes."""
        return self.path == "/zones" or self.path.startswith("/zones/")


# fmt: off
URLS: tuple[Route, ...] = (
    Route("GET", "/", versions.list_versions, OPEN, "versions", mounts=("",)),
    Route("GET", "/", versions.show, OPEN, "version", mounts=(PREFIX,)),
    Route("GET", "/health", health.health, OPEN, "status"),
    Route("GET", "/readiness", health.readiness, OPEN, "status; 503 when not ready"),
    Route("GET", "/metrics", health.metrics, ADMIN, "Prometheus text"),
    Route("GET", "/openapi.json", health.openapi, OPEN, "OpenAPI 3.1 document"),

    Route("GET", "/zones", zones.list_brief, ADMIN, "zones"),
    Route("POST", "/zones", zones.add, ADMIN, "zone", AddZoneBody, status=201),
    Route("GET", "/zones/detail", zones.list_detail, ADMIN, "zones"),
    Route("GET", "/zones/info", zones.info, ADMIN | PARENT, "zone"),
    Route("POST", "/zones/select", zones.select, PARENT, "weights with sealed entries", SelectBody),
    Route("POST", "/zones/boot", zones.boot, USERS, "reservation_id, or dry_run", BootBody, status=202),
    Route("GET", "/zones/{id}", zones.show, ADMIN, "zone"),
    Route("PUT", "/zones/{id}", zones.change, ADMIN, "zone", ChangeZoneBody),
    Route("DELETE", "/zones/{id}", zones.remove, ADMIN, "nothing", query=RemoveQuery, status=204),

    Route("POST", "/servers", servers.create, USERS, "server, or reservation_id", CreateBody, status=202),
    Route("POST", "/servers", servers.build, PARENT, "builds", BuildBody, status=202),
    Route("GET", "/servers", servers.list_brief, PEOPLE, "servers", query=ListQuery),
    Route("GET", "/servers", servers.list_to_parent, PARENT, "servers", query=ListQuery),
    Route("GET", "/servers/detail", servers.list_detail, PEOPLE, "servers", query=ListQuery),
    Route("GET", "/servers/{id}", servers.show, PEOPLE, "server"),
    Route("GET", "/servers/{id}", servers.show_to_parent, PARENT, "server"),
    Route("DELETE", "/servers/{id}", servers.delete, USERS | PARENT, "nothing", status=204),

    Route("GET", "/reservations", reservations.changes, PARENT, "instances, cursor", query=ChangesQuery),
    Route("GET", "/reservations", reservations.list_boots, PEOPLE, "reservations", query=BootsQuery),
    Route("GET", "/reservations/{id}", reservations.show, PEOPLE | PARENT, "reservation"),
    Route("GET", "/reservations/{id}/why", reservations.why_host, ADMIN, "host", query=WhyQuery),
    Route("POST", "/reservations/{id}/confirm", reservations.confirm, PARENT, "builds", AttemptsBody),
    Route("POST", "/reservations/{id}/cancel", reservations.cancel, PARENT, "builds", AttemptsBody),

    Route("GET", "/os-server-groups", server_groups.list_all, PEOPLE, "server_groups", query=GroupsQuery),
    Route("POST", "/os-server-groups", server_groups.create, USERS, "server_group", ServerGroupBody),
    Route("GET", "/os-server-groups/{id}", server_groups.show, PEOPLE, "server_group"),
    Route("DELETE", "/os-server-groups/{id}", server_groups.delete, USERS, "nothing", status=204),

    Route("GET", "/flavors", flavors.list_brief, PEOPLE, "flavors"),
    Route("POST", "/flavors", flavors.create, ADMIN, "flavor", FlavorBody),
    Route("GET", "/flavors/detail", flavors.list_detail, PEOPLE, "flavors"),
    Route("GET", "/flavors/{id}", flavors.show, PEOPLE, "flavor"),
    Route("DELETE", "/flavors/{id}", flavors.delete, ADMIN, "nothing", status=202),
    Route("GET", "/flavors/{id}/os-extra_specs", flavors.list_extra_specs, PEOPLE, "extra_specs"),
    Route("POST", "/flavors/{id}/os-extra_specs", flavors.set_extra_specs, ADMIN, "specs", ExtraSpecsBody),
    Route("GET", "/flavors/{id}/os-extra_specs/{key}", flavors.show_extra_spec, PEOPLE, "the extra spec"),
    Route("DELETE", "/flavors/{id}/os-extra_specs/{key}", flavors.delete_extra_spec, ADMIN, "nothing"),

    Route("GET", "/images", images.list_brief, PEOPLE, "images"),
    Route("POST", "/images", images.create, ADMIN, "image", ImageBody, status=201),
    Route("GET", "/images/detail", images.list_detail, PEOPLE, "images"),
    Route("GET", "/images/{id}", images.show, PEOPLE, "image"),
    Route("DELETE", "/images/{id}", images.delete, ADMIN, "nothing", status=204),

    Route("GET", "/os-hypervisors", hypervisors.list_brief, ADMIN, "hypervisors"),
    Route("GET", "/os-hypervisors/detail", hypervisors.list_detail, ADMIN, "hypervisors"),
    Route("GET", "/os-hypervisors/{id}", hypervisors.show, ADMIN, "hypervisor"),
    Route("PUT", "/os-hypervisors/{id}", hypervisors.change, ADMIN, "hypervisor", HypervisorBody),

    Route("GET", "/os-aggregates", aggregates.list_all, ADMIN, "aggregates"),
    Route("POST", "/os-aggregates", aggregates.create, ADMIN, "aggregate", NewAggregateBody),
    Route("GET", "/os-aggregates/{id}", aggregates.show, ADMIN, "aggregate"),
    Route("PUT", "/os-aggregates/{id}", aggregates.change, ADMIN, "aggregate", ChangeAggregateBody),
    Route("DELETE", "/os-aggregates/{id}", aggregates.delete, ADMIN, "nothing"),
    Route("POST", "/os-aggregates/{id}/action", aggregates.act, ADMIN, "aggregate", AggregateActionBody),

    Route("GET", "/os-services", services.list_all, ADMIN, "services", query=ServicesQuery),
    Route("PUT", "/os-services/{id}", services.change, ADMIN, "service", ServiceBody),
    Route("DELETE", "/os-services/{id}", services.remove, ADMIN, "nothing", status=204),
    Route("PUT", "/os-services/enable", services.enable, ADMIN, "service", NamedServiceBody),
    Route("PUT", "/os-services/disable", services.disable, ADMIN, "service", NamedServiceBody),
    Route("PUT", "/os-services/disable-log-reason", services.disable_why, ADMIN, "service", DisableBody),
    Route("PUT", "/os-services/force-down", services.force_down, ADMIN, "service", ForceDownBody),
    Route("GET", "/os-availability-zone", availability_zones.list_brief, PEOPLE, "zones"),
    Route("GET", "/os-availability-zone/detail", availability_zones.list_detail, ADMIN, "zones with hosts"),

    Route("PUT", "/hosts", hosts.register, AGENT, "hosts", RegisterBody),
    Route("POST", "/hosts/beat", hosts.beat, AGENT, "nothing", BeatBody, status=204),
    Route("GET", "/hosts/instances", hosts.instances, AGENT, "instances", query=InstancesQuery),
    Route("GET", "/hosts/claims", hosts.claimed, AGENT, "instances, booked", query=InstancesQuery),
    Route("POST", "/hosts/excesses", hosts.report_excesses, AGENT, "nothing", ExcessesBody, status=204),
    Route("POST", "/hosts/reports", hosts.report, AGENT, "nothing", ReportsBody, status=204),

    Route("GET", "/users", users.list_users, ADMIN, "users"),
    Route("POST", "/users", users.create, ADMIN, "user, and its secret once", UserBody, status=201),
    Route("PUT", "/users/{name}", users.change, ADMIN, "user, and its secret once", ChangeUserBody),
    Route("POST", "/users/{name}/password", users.set_own, PEOPLE, "nothing", OwnPasswordBody, status=204),
    Route("DELETE", "/users/{name}", users.delete, ADMIN, "nothing", query=RemoveUserQuery, status=204),
    Route("GET", "/limits", limits.show, PEOPLE | PARENT, "limits"),
    Route("GET", "/limits/own", limits.list_own, ADMIN, "projects, parents"),
    Route("GET", "/limits/projects/{id}", limits.show_project, ADMIN, "limits"),
    Route("PUT", "/limits/projects/{id}", limits.change_project, ADMIN, "limits", ProjectLimitsBody),
    Route("GET", "/limits/parents/{name}", limits.show_parent, ADMIN, "limits"),
    Route("PUT", "/limits/parents/{name}", limits.change_parent, ADMIN, "limits", ParentLimitsBody),

    Route("GET", "/audit", audit.run, ADMIN, "inconsistencies", query=AuditQuery),
    Route("GET", "/audit", audit.report, PARENT, "inconsistencies of the parent's", query=ReportedAuditQuery),
    Route("POST", "/audit", audit.repair, ADMIN, "inconsistencies, and what was done", RepairBody),
)
# fmt: on
