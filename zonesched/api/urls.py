"""The table of all calls of a zone: URL, roles, body, query and answer, one line each.

Two lines with the same URL and method are for different roles. The application serves each line at `/` and
under `/v2.1`. The OpenAPI document and the tests of roles are made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.api import (
    actions,
    aggregates,
    audit,
    availability_zones,
    extensions,
    external_events,
    flavors,
    glance,
    health,
    hosts,
    hypervisors,
    identity,
    images,
    keypairs,
    limits,
    migrations,
    os_hosts,
    quota_sets,
    reservations,
    server_details,
    server_groups,
    server_internals,
    server_usage,
    servers,
    services,
    users,
    versions,
    zones,
)
from zonesched.api.call import Handler
from zonesched.api.links import PREFIX
from zonesched.api.schemas.actions import ActionBody
from zonesched.api.schemas.aggregates import AggregateActionBody, ChangeAggregateBody, NewAggregateBody
from zonesched.api.schemas.audit import AuditQuery, RepairBody, ReportedAuditQuery
from zonesched.api.schemas.builds import AttemptsBody, BuildBody
from zonesched.api.schemas.desired import DesiredBody
from zonesched.api.schemas.external_events import ExternalEventsBody
from zonesched.api.schemas.fields import Schema
from zonesched.api.schemas.flavors import (
    ChangeFlavorBody,
    ExtraSpecBody,
    ExtraSpecsBody,
    FlavorActionBody,
    FlavorBody,
    FlavorsQuery,
)
from zonesched.api.schemas.hosts import (
    BeatBody,
    ExcessesBody,
    InstancesQuery,
    RegisterBody,
    ReportsBody,
)
from zonesched.api.schemas.hypervisors import HypervisorBody, HypervisorQuery, HypervisorsQuery
from zonesched.api.schemas.identity import ProjectsQuery
from zonesched.api.schemas.images import ComputeImagesQuery, ImageBody, ImagesQuery
from zonesched.api.schemas.keypairs import KeypairBody, KeypairQuery, KeypairsQuery
from zonesched.api.schemas.limits import LimitsQuery, ParentLimitsBody, ProjectLimitsBody
from zonesched.api.schemas.migrations import MigrationActionBody, MigrationsQuery
from zonesched.api.schemas.os_hosts import OsHostBody, OsHostsQuery
from zonesched.api.schemas.quota_sets import QuotaClassBody, QuotaQuery, QuotaSetBody
from zonesched.api.schemas.reservations import BootsQuery, ChangesQuery, WhyQuery
from zonesched.api.schemas.select import SelectBody
from zonesched.api.schemas.server_details import ChangeServerBody, MetadataBody, MetadataItemBody, TagsBody
from zonesched.api.schemas.server_groups import GroupsQuery, ServerGroupBody
from zonesched.api.schemas.server_internals import RemoteConsoleBody
from zonesched.api.schemas.server_usage import UsageQuery
from zonesched.api.schemas.servers import BootBody, CreateBody, DeleteQuery, ListQuery
from zonesched.api.schemas.services import (
    DisableBody,
    ForceDownBody,
    NamedServiceBody,
    ServiceActionBody,
    ServiceBody,
    ServicesQuery,
)
from zonesched.api.schemas.users import ChangeUserBody, OwnPasswordBody, RemoveUserQuery, UserBody
from zonesched.api.schemas.zones import AddZoneBody, ChangeZoneBody, RemoveQuery
from zonesched.model.caller import Role

MOUNTS = ("", PREFIX)
IDENTITY = (identity.MOUNT,)
"""Where the calls of OpenStack's Identity API are served."""
IMAGE = (glance.MOUNT,)
"""Where the calls of OpenStack's Image API are served."""
IMAGE_LOOKUP = (glance.MOUNT, PREFIX)
"""Likewise for those that novaclient makes: without a catalog, it looks for images below the Compute API."""

ADMIN = frozenset({Role.ADMIN})
USERS = frozenset({Role.ADMIN, Role.MEMBER})
PEOPLE = USERS | {Role.READER}
PARENT = frozenset({Role.PARENT})
AGENT = frozenset({Role.COMPUTE})
MONITORS = frozenset({Role.ADMIN, Role.MONITOR})
OPEN: frozenset[Role] = frozenset(Role)


class NoQuery(Schema):
    """No parameters."""


@dataclass(frozen=True)
class Route:
    """One call. `roles` of OPEN: no credentials are needed.

    `answer` names the members of the answer's object where it is a list of names. `other_answers` has what
    else the call answers, with the status, but for a fault in the API's form.
    """

    method: str
    path: str
    handler: Handler
    roles: frozenset[Role]
    answer: str
    body: type[Schema] | None = None
    query: type[Schema] = NoQuery
    status: int = 200
    other_answers: tuple[tuple[int, str], ...] = ()
    mounts: tuple[str, ...] = MOUNTS

    @property
    def url(self) -> str:
        """Return the path under its first mount."""
        return self.mounts[0] + self.path

    @property
    def operation_id(self) -> str:
        """Return the name of the call in the OpenAPI description."""
        return f"{self.handler.__module__.rpartition('.')[2]}_{self.handler.__name__}"

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
    Route("GET", "/readiness", health.readiness, OPEN, "status",
          other_answers=((503, "status"),)),
    Route("GET", "/metrics", health.metrics, MONITORS, "Prometheus text"),
    Route("GET", "/openapi.json", health.openapi, OPEN,
          "openapi, info, servers, security, paths, components"),

    Route("GET", "/zones", zones.list_brief, ADMIN, "zones"),
    Route("POST", "/zones", zones.add, ADMIN, "zone", AddZoneBody, status=201),
    Route("GET", "/zones/detail", zones.list_detail, ADMIN, "zones"),
    Route("GET", "/zones/info", zones.info, ADMIN | PARENT, "zone"),
    Route("POST", "/zones/select", zones.select, PARENT,
          "version, weights, alternates, bundles, complete, expires_in, why, runs_out", SelectBody),
    Route("POST", "/zones/boot", zones.boot, USERS, "reservation_id", BootBody, status=202,
          other_answers=((200, "dry_run"),)),
    Route("GET", "/zones/{id}", zones.show, ADMIN, "zone"),
    Route("PUT", "/zones/{id}", zones.change, ADMIN, "zone", ChangeZoneBody),
    Route("DELETE", "/zones/{id}", zones.remove, ADMIN, "nothing", query=RemoveQuery, status=204),

    Route("POST", "/servers", servers.create, USERS, "server", CreateBody, status=202,
          other_answers=((202, "reservation_id"),)),
    Route("POST", "/servers", servers.build, PARENT, "builds", BuildBody, status=202),
    Route("GET", "/servers", servers.list_brief, PEOPLE, "servers", query=ListQuery),
    Route("GET", "/servers", servers.list_to_parent, PARENT, "servers", query=ListQuery),
    Route("GET", "/servers/detail", servers.list_detail, PEOPLE, "servers", query=ListQuery),
    Route("GET", "/servers/{id}", servers.show, PEOPLE, "server"),
    Route("GET", "/servers/{id}", servers.show_to_parent, PARENT, "server"),
    Route("PUT", "/servers/{id}", server_details.change, USERS, "server", ChangeServerBody),
    Route("DELETE", "/servers/{id}", servers.delete, USERS, "nothing", status=204),
    Route("DELETE", "/servers/{id}", servers.delete_for_parent, PARENT, "nothing", query=DeleteQuery,
          status=204),
    Route("POST", "/servers/desired", actions.take_desired, PARENT, "servers", DesiredBody),
    Route("POST", "/servers/{id}/action", actions.act, USERS, "nothing; of a rebuild: server", ActionBody,
          status=202),
    Route("GET", "/servers/{id}/metadata", server_details.list_metadata, PEOPLE, "metadata"),
    Route("POST", "/servers/{id}/metadata", server_details.add_metadata, USERS, "metadata", MetadataBody),
    Route("PUT", "/servers/{id}/metadata", server_details.replace_metadata, USERS, "metadata", MetadataBody),
    Route("GET", "/servers/{id}/metadata/{key}", server_details.show_metadata, PEOPLE, "meta"),
    Route("PUT", "/servers/{id}/metadata/{key}", server_details.set_metadata, USERS, "meta",
          MetadataItemBody),
    Route("DELETE", "/servers/{id}/metadata/{key}", server_details.remove_metadata, USERS, "nothing",
          status=204),
    Route("GET", "/servers/{id}/tags", server_details.list_tags, PEOPLE, "tags"),
    Route("PUT", "/servers/{id}/tags", server_details.replace_tags, USERS, "tags", TagsBody),
    Route("DELETE", "/servers/{id}/tags", server_details.remove_tags, USERS, "nothing", status=204),
    Route("GET", "/servers/{id}/tags/{tag}", server_details.has_tag, PEOPLE, "nothing", status=204),
    Route("PUT", "/servers/{id}/tags/{tag}", server_details.add_tag, USERS, "nothing", status=201,
          other_answers=((204, "nothing"),)),
    Route("DELETE", "/servers/{id}/tags/{tag}", server_details.remove_tag, USERS, "nothing", status=204),
    Route("GET", "/servers/{id}/ips", server_details.list_addresses, PEOPLE, "addresses"),
    Route("GET", "/servers/{id}/os-security-groups", server_details.list_security_groups, PEOPLE,
          "security_groups"),
    Route("GET", "/servers/{id}/os-interface", server_details.list_interfaces, PEOPLE,
          "interfaceAttachments"),
    Route("GET", "/servers/{id}/os-volume_attachments", server_details.list_volumes, PEOPLE,
          "volumeAttachments"),
    Route("GET", "/servers/{id}/migrations", migrations.list_of_server, PEOPLE, "migrations"),
    Route("GET", "/servers/{id}/migrations/{migration_id}", migrations.show, PEOPLE, "migration"),
    Route("DELETE", "/servers/{id}/migrations/{migration_id}", migrations.abort, USERS, "nothing",
          status=202),
    Route("POST", "/servers/{id}/migrations/{migration_id}/action", migrations.complete, USERS, "nothing",
          MigrationActionBody, status=202),
    Route("GET", "/servers/{id}/diagnostics", server_internals.diagnostics, PEOPLE, "the diagnostics"),
    Route("GET", "/servers/{id}/topology", server_internals.topology, PEOPLE, "nodes, pagesize_kb"),
    Route("GET", "/servers/{id}/os-server-password", server_internals.show_password, PEOPLE, "password"),
    Route("DELETE", "/servers/{id}/os-server-password", server_internals.clear_password, USERS, "nothing",
          status=204),
    Route("POST", "/servers/{id}/remote-consoles", server_internals.open_console, USERS, "remote_console",
          RemoteConsoleBody),
    Route("GET", "/servers/{id}/os-instance-actions", actions.list_all, PEOPLE, "instanceActions"),
    Route("GET", "/servers/{id}/os-instance-actions/{request_id}", actions.show, PEOPLE, "instanceAction"),

    Route("GET", "/reservations", reservations.changes, PARENT, "instances, cursor", query=ChangesQuery),
    Route("GET", "/reservations", reservations.list_boots, PEOPLE, "reservations", query=BootsQuery),
    Route("GET", "/reservations/{id}", reservations.show, PEOPLE | PARENT, "reservation"),
    Route("GET", "/reservations/{id}/why", reservations.why_host, ADMIN, "host", query=WhyQuery),
    Route("POST", "/reservations/{id}/action", actions.act_on_boot, USERS, "accepted, refused", ActionBody,
          status=202),
    Route("POST", "/reservations/{id}/confirm", reservations.confirm, PARENT, "builds", AttemptsBody),
    Route("POST", "/reservations/{id}/cancel", reservations.cancel, PARENT, "builds", AttemptsBody),

    Route("GET", "/os-server-groups", server_groups.list_all, PEOPLE, "server_groups", query=GroupsQuery),
    Route("POST", "/os-server-groups", server_groups.create, USERS, "server_group", ServerGroupBody),
    Route("GET", "/os-server-groups/{id}", server_groups.show, PEOPLE, "server_group"),
    Route("DELETE", "/os-server-groups/{id}", server_groups.delete, USERS, "nothing", status=204),

    Route("GET", "/flavors", flavors.list_brief, PEOPLE, "flavors", query=FlavorsQuery),
    Route("POST", "/flavors", flavors.create, ADMIN, "flavor", FlavorBody),
    Route("GET", "/flavors/detail", flavors.list_detail, PEOPLE, "flavors", query=FlavorsQuery),
    Route("GET", "/flavors/{id}", flavors.show, PEOPLE, "flavor"),
    Route("PUT", "/flavors/{id}", flavors.change, ADMIN, "flavor", ChangeFlavorBody),
    Route("DELETE", "/flavors/{id}", flavors.delete, ADMIN, "nothing", status=202),
    Route("POST", "/flavors/{id}/action", flavors.act, ADMIN, "flavor_access", FlavorActionBody),
    Route("GET", "/flavors/{id}/os-flavor-access", flavors.list_access, ADMIN, "flavor_access"),
    Route("GET", "/flavors/{id}/os-extra_specs", flavors.list_extra_specs, PEOPLE, "extra_specs"),
    Route("POST", "/flavors/{id}/os-extra_specs", flavors.set_extra_specs, ADMIN, "extra_specs",
          ExtraSpecsBody),
    Route("GET", "/flavors/{id}/os-extra_specs/{key}", flavors.show_extra_spec, PEOPLE, "the extra spec"),
    Route("PUT", "/flavors/{id}/os-extra_specs/{key}", flavors.set_extra_spec, ADMIN, "the spec",
          ExtraSpecBody),
    Route("DELETE", "/flavors/{id}/os-extra_specs/{key}", flavors.delete_extra_spec, ADMIN, "nothing"),

    Route("GET", "/images", images.list_brief, PEOPLE, "images", query=ComputeImagesQuery),
    Route("POST", "/images", images.create, ADMIN, "image", ImageBody, status=201),
    Route("GET", "/images/detail", images.list_detail, PEOPLE, "images", query=ComputeImagesQuery),
    Route("GET", "/images/{id}", images.show, PEOPLE, "image"),
    Route("DELETE", "/images/{id}", images.delete, ADMIN, "nothing", status=204),
    Route("GET", "/images/{id}/metadata", images.list_metadata, PEOPLE, "metadata"),
    Route("GET", "/images/{id}/metadata/{key}", images.show_metadata, PEOPLE, "meta"),

    Route("GET", "/", glance.list_versions, OPEN, "versions", mounts=IMAGE),
    Route("GET", "/v2", glance.show_version, OPEN, "version", mounts=IMAGE),
    Route("GET", "/v2/images", glance.list_all, PEOPLE, "images", query=ImagesQuery, mounts=IMAGE_LOOKUP),
    Route("GET", "/v2/images/{id}", glance.show, PEOPLE, "the image", mounts=IMAGE_LOOKUP),

    Route("GET", "/", identity.list_versions, OPEN, "versions", mounts=IDENTITY),
    Route("GET", "/v3", identity.show_version, OPEN, "version", mounts=IDENTITY),
    Route("GET", "/v3/projects", identity.list_projects, PEOPLE, "projects", query=ProjectsQuery,
          mounts=IDENTITY),
    Route("GET", "/v3/projects/{id}", identity.show_project, PEOPLE, "project", mounts=IDENTITY),

    Route("GET", "/os-keypairs", keypairs.list_all, PEOPLE, "keypairs", query=KeypairsQuery),
    Route("POST", "/os-keypairs", keypairs.create, USERS, "keypair", KeypairBody, status=201,
          other_answers=((200, "keypair"),)),
    Route("GET", "/os-keypairs/{name}", keypairs.show, PEOPLE, "keypair", query=KeypairQuery),
    Route("DELETE", "/os-keypairs/{name}", keypairs.delete, USERS, "nothing", query=KeypairQuery,
          status=204, other_answers=((202, "nothing"),)),

    Route("GET", "/os-hypervisors", hypervisors.list_brief, ADMIN, "hypervisors", query=HypervisorsQuery),
    Route("GET", "/os-hypervisors/detail", hypervisors.list_detail, ADMIN, "hypervisors",
          query=HypervisorsQuery),
    Route("GET", "/os-hypervisors/statistics", hypervisors.statistics, ADMIN, "hypervisor_statistics"),
    Route("GET", "/os-hypervisors/{id}/search", hypervisors.search, ADMIN, "hypervisors"),
    Route("GET", "/os-hypervisors/{id}/servers", hypervisors.list_servers, ADMIN, "hypervisors"),
    Route("GET", "/os-hypervisors/{id}/uptime", hypervisors.show_uptime, ADMIN, "hypervisor"),
    Route("GET", "/os-hypervisors/{id}", hypervisors.show, ADMIN, "hypervisor", query=HypervisorQuery),
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
    Route("POST", "/os-services/{id}/action", services.act, ADMIN, "evacuated, moving", ServiceActionBody,
          status=202),
    Route("PUT", "/os-services/enable", services.enable, ADMIN, "service", NamedServiceBody),
    Route("PUT", "/os-services/disable", services.disable, ADMIN, "service", NamedServiceBody),
    Route("PUT", "/os-services/disable-log-reason", services.disable_why, ADMIN, "service", DisableBody),
    Route("PUT", "/os-services/force-down", services.force_down, ADMIN, "service", ForceDownBody),
    Route("GET", "/os-availability-zone", availability_zones.list_brief, PEOPLE, "availabilityZoneInfo"),
    Route("GET", "/os-availability-zone/detail", availability_zones.list_detail, ADMIN,
          "availabilityZoneInfo"),
    Route("GET", "/os-hosts", os_hosts.list_all, ADMIN, "hosts", query=OsHostsQuery),
    Route("GET", "/os-hosts/{name}", os_hosts.show, ADMIN, "host"),
    Route("PUT", "/os-hosts/{name}", os_hosts.change, ADMIN, "host, status", OsHostBody),
    Route("GET", "/os-migrations", migrations.list_all, ADMIN, "migrations", query=MigrationsQuery),
    Route("POST", "/os-server-external-events", external_events.take, ADMIN, "events", ExternalEventsBody,
          other_answers=((207, "events"),)),

    Route("PUT", "/hosts", hosts.register, AGENT, "hosts", RegisterBody),
    Route("POST", "/hosts/beat", hosts.beat, AGENT, "nothing", BeatBody, status=204),
    Route("GET", "/hosts/instances", hosts.instances, AGENT, "instances", query=InstancesQuery),
    Route("GET", "/hosts/claims", hosts.claimed, AGENT, "instances, booked", query=InstancesQuery),
    Route("POST", "/hosts/excesses", hosts.report_excesses, AGENT, "nothing", ExcessesBody, status=204),
    Route("POST", "/hosts/reports", hosts.report, AGENT, "nothing", ReportsBody, status=204),

    Route("GET", "/users", users.list_users, ADMIN, "users"),
    Route("POST", "/users", users.create, ADMIN, "user", UserBody, status=201),
    Route("PUT", "/users/{name}", users.change, ADMIN, "user", ChangeUserBody),
    Route("POST", "/users/{name}/password", users.set_own, PEOPLE, "nothing", OwnPasswordBody, status=204),
    Route("DELETE", "/users/{name}", users.delete, ADMIN, "nothing", query=RemoveUserQuery, status=204),
    Route("GET", "/limits", limits.show, PEOPLE | PARENT, "limits", query=LimitsQuery),
    Route("GET", "/limits/overrides", limits.list_overrides, ADMIN, "projects, parents"),
    Route("GET", "/limits/projects/{id}", limits.show_project, ADMIN, "limits"),
    Route("PUT", "/limits/projects/{id}", limits.change_project, ADMIN, "limits", ProjectLimitsBody),
    Route("GET", "/limits/parents/{name}", limits.show_parent, ADMIN, "limits"),
    Route("PUT", "/limits/parents/{name}", limits.change_parent, ADMIN, "limits", ParentLimitsBody),

    Route("GET", "/os-quota-sets/{id}", quota_sets.show, PEOPLE, "quota_set", query=QuotaQuery),
    Route("PUT", "/os-quota-sets/{id}", quota_sets.change, ADMIN, "quota_set", QuotaSetBody, QuotaQuery),
    Route("DELETE", "/os-quota-sets/{id}", quota_sets.reset, ADMIN, "nothing", query=QuotaQuery, status=202),
    Route("GET", "/os-quota-sets/{id}/defaults", quota_sets.defaults, PEOPLE, "quota_set", query=QuotaQuery),
    Route("GET", "/os-quota-sets/{id}/detail", quota_sets.show_detail, PEOPLE, "quota_set", query=QuotaQuery),
    Route("GET", "/os-quota-class-sets/{id}", quota_sets.show_class, PEOPLE, "quota_class_set"),
    Route("PUT", "/os-quota-class-sets/{id}", quota_sets.change_class, ADMIN, "quota_class_set",
          QuotaClassBody),
    Route("GET", "/os-simple-tenant-usage", server_usage.list_all, ADMIN, "tenant_usages", query=UsageQuery),
    Route("GET", "/os-simple-tenant-usage/{id}", server_usage.show, PEOPLE, "tenant_usage",
          query=UsageQuery),
    Route("GET", "/extensions", extensions.list_all, PEOPLE, "extensions"),
    Route("GET", "/extensions/{id}", extensions.show, PEOPLE, "extension"),

    Route("GET", "/audit", audit.run, ADMIN, "inconsistencies", query=AuditQuery),
    Route("GET", "/audit", audit.report, PARENT, "version, inconsistencies, complete",
          query=ReportedAuditQuery),
    Route("POST", "/audit", audit.repair, ADMIN, "inconsistencies", RepairBody),
)
# fmt: on
