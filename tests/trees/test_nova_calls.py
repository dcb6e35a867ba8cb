"""OpenStack's calls for usage, quotas, projects and hosts; and for what a zone does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.boots import FLAVOR
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.stores import statements_read_by
from tests.builders.tree import Node, Tree, a_host
from zonesched.api import hypervisors, server_usage
from zonesched.api.schemas.fields import LONGEST_PAGE
from zonesched.model.caller import Role
from zonesched.model.openstack_time import iso_time, zoneless_time
from zonesched.model.page_link import next_marker
from zonesched.services.catalog import users

HOUR_S = 3600.0
NOBODY = "00000000-0000-4000-8000-00000000dead"


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    node = tree.add("leaf", hosts_=[a_host("h1"), a_host("h2", zone="az2")])
    node.client().post("/flavors", FLAVOR)
    made = users.create(node.zone.store, node.zone.clock, "stranger", Role.MEMBER, "project-2")
    node.secrets["stranger"] = made.secret
    return tree


@pytest.fixture
def node(tree: Tree) -> Node:
    return tree.nodes["leaf"]


def booted(tree: Tree, count: int = 1, user: str = "member", flavor: str = "small") -> list[str]:
    """Servers that run; their ids, sorted."""
    node = tree.nodes["leaf"]
    body = {"server": {"name": "vm", "flavorRef": flavor, "num_instances": count}}
    made = node.client(user).post("/zones/boot", body)
    tree.settle()
    PlayedAgent(node).converge()
    shown = node.client(user).get(f"/reservations/{made.json['reservation_id']}")
    return sorted(line["uuid"] for line in shown.json["reservation"]["instances"])


def failed(tree: Tree) -> list[str]:
    """A server in ERROR, for which no host has room."""
    node = tree.nodes["leaf"]
    node.client().post("/flavors", {"flavor": {"name": "huge", "vcpus": 10_000, "ram": 1, "disk": 1}})
    body = {"server": {"name": "vm", "flavorRef": "huge", "num_instances": 1}}
    made = node.client("member").post("/zones/boot", body)
    tree.settle()
    shown = node.client("member").get(f"/reservations/{made.json['reservation_id']}").json["reservation"]
    assert shown["state"] == "ERROR"
    return [line["uuid"] for line in shown["instances"]]


def project_of(node: Node, user: str = "member") -> str:
    project: str = node.client(user).get("/identity/v3/projects").json["projects"][0]["id"]
    return project


def at(node: Node, minor: int, path: str, user: str = "admin") -> Any:
    headers = {"OpenStack-API-Version": f"compute 2.{minor}"}
    return node.client(user).call("GET", path, headers=headers).json


class TestUsage:
    def usage(self, node: Node, query: str = "", user: str = "member") -> Any:
        path = f"/os-simple-tenant-usage/{project_of(node)}?{query}"
        return node.client(user).get(path).json["tenant_usage"]

    def test_it_sums_up_the_hours_of_servers_with_their_sizes(self, tree: Tree, node: Node) -> None:
        kept, removed = booted(tree, 2)
        tree.clock.advance(2 * HOUR_S)
        node.client("member").delete(f"/servers/{removed}")
        tree.clock.advance(HOUR_S)

        found = self.usage(node)

        by_id = {line["instance_id"]: line for line in found["server_usages"]}
        assert by_id[kept]["hours"] == pytest.approx(3, abs=0.01)
        assert by_id[removed]["hours"] == pytest.approx(2, abs=0.01)
        assert (by_id[kept]["state"], by_id[removed]["state"]) == ("active", "terminated")
        assert (by_id[kept]["ended_at"], by_id[removed]["ended_at"] is None) == (None, False)
        small = FLAVOR["flavor"]
        assert found["total_hours"] == pytest.approx(5, abs=0.01)
        assert found["total_vcpus_usage"] == pytest.approx(5 * small["vcpus"], abs=0.1)
        assert found["total_memory_mb_usage"] == pytest.approx(5 * small["ram"], rel=0.01)

    def test_a_server_in_error_counts_until_it_failed_whatever_is_done_to_it_later(
        self, tree: Tree, node: Node
    ) -> None:
        (server,) = failed(tree)
        failed_at = tree.clock.now()

        def shown() -> Any:
            return node.client("member").get(f"/servers/{server}").json["server"]

        def creation() -> Any:
            path = f"/servers/{server}/os-instance-actions"
            return node.client("member").get(path).json["instanceActions"][-1]

        tree.clock.advance(2 * HOUR_S)
        node.client("member").call("PUT", f"/servers/{server}", {"server": {"name": "broken"}})

        assert self.usage(node)["total_hours"] == 0
        assert shown()["fault"]["created"] == iso_time(failed_at)
        assert shown()["updated"] == iso_time(tree.clock.now())
        assert creation()["finish_time"] == zoneless_time(failed_at)

        tree.clock.advance(2 * HOUR_S)
        node.client("member").delete(f"/servers/{server}")

        (line,) = self.usage(node)["server_usages"]
        assert (line["hours"], line["state"], line["ended_at"]) == (0, "terminated", zoneless_time(failed_at))
        assert creation()["finish_time"] == zoneless_time(failed_at)
        after = f"start={iso_time(failed_at + HOUR_S)}"
        assert self.usage(node, after) == {}

    def test_only_the_period_counts(self, tree: Tree, node: Node) -> None:
        booted(tree)
        tree.clock.advance(2 * HOUR_S)
        now = tree.clock.now()

        last_hour = f"start={iso_time(now - HOUR_S)}&end={iso_time(now)}"
        before = f"start={iso_time(now - 9 * HOUR_S)}&end={iso_time(now - 8 * HOUR_S)}"

        assert self.usage(node, last_hour)["total_hours"] == pytest.approx(1, abs=0.01)
        assert self.usage(node, before) == {}
        assert (
            node.client("member")
            .get(f"/os-simple-tenant-usage/{project_of(node)}?start={iso_time(now)}&end={iso_time(now)}")
            .json["badRequest"]["field"]
            == "end"
        )

    @pytest.mark.parametrize("start", ["1970-01-01T00:00:00", "1969-12-31", "0001-01-01T00:00:00%2B23:59"])
    @pytest.mark.parametrize("end", ["", "9999-12-31T23:59:59-23:59"])
    def test_a_period_may_begin_and_end_with_the_calendar(
        self, tree: Tree, node: Node, start: str, end: str
    ) -> None:
        booted(tree)
        tree.clock.advance(1000 * HOUR_S)

        found = self.usage(node, f"start={start}" + (f"&end={end}" if end else ""))

        assert found["total_hours"] == pytest.approx(1000, abs=0.01)
        assert found["start"].startswith("1970-01-01T00:00:00")

    def test_an_admin_lists_all_projects_page_by_page(self, tree: Tree, node: Node) -> None:
        booted(tree, 2)
        booted(tree, 1, "stranger")
        pages, query = [], "detailed=1&limit=2"

        while query:
            answer = node.client().get(f"/os-simple-tenant-usage?{query}").json
            pages += [(usage["tenant_id"], len(usage["server_usages"])) for usage in answer["tenant_usages"]]
            links = answer.get("tenant_usages_links", [])
            query = links[0]["href"].partition("?")[2] if links else ""

        assert sum(count for _, count in pages) == 3
        assert {project for project, _ in pages} == {project_of(node), "project-2"}
        assert len(pages) in (2, 3)
        assert "tenant_usages_links" not in at(node, 39, "/os-simple-tenant-usage?limit=2")
        assert node.client().get(f"/os-simple-tenant-usage?marker={NOBODY}").status == 400

    def test_a_client_that_knows_no_pages_gets_all(
        self, tree: Tree, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        count = LONGEST_PAGE + 1
        body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": count}}
        assert node.client("member").post("/zones/boot", body).status == 202
        tree.clock.advance(HOUR_S)

        path = f"/os-simple-tenant-usage/{project_of(node)}"
        of_one, new = (at(node, minor, path)["tenant_usage"] for minor in (39, 40))
        (of_all,) = at(node, 39, "/os-simple-tenant-usage")["tenant_usages"]

        assert of_one["total_hours"] == of_all["total_hours"] == pytest.approx(count)
        assert [len(found["server_usages"]) for found in (of_one, new)] == [count, LONGEST_PAGE]

        monkeypatch.setattr(server_usage, "MOST_AT_ONCE", LONGEST_PAGE)
        assert at(node, 39, path)["badRequest"]["error_code"] == "too_many_servers"

    @pytest.mark.sqlite
    def test_a_client_that_knows_no_pages_and_asks_for_too_many_is_refused_after_the_first_page(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server_usage, "MOST_AT_ONCE", LONGEST_PAGE + 1)
        body = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 2 * LONGEST_PAGE + 1}}
        assert node.client("member").post("/zones/boot", body).status == 202
        path = f"/os-simple-tenant-usage/{project_of(node)}"

        read = statements_read_by(node.zone.store, lambda: at(node, 39, path))

        assert at(node, 39, path)["badRequest"]["error_code"] == "too_many_servers"
        assert sum("ORDER BY instances.created_at" in text for text in read) == 1

    def test_a_marker_of_another_project_is_as_unknown_as_any(self, tree: Tree, node: Node) -> None:
        (foreign,), (own,) = booted(tree), booted(tree, 1, "stranger")
        path = f"/os-simple-tenant-usage/{project_of(node, 'stranger')}?marker="
        stranger = node.client("stranger")

        assert stranger.get(path + foreign).json == stranger.get(path + NOBODY).json
        assert stranger.get(path + foreign).json["badRequest"]["error_code"] == "marker_unknown"
        assert stranger.get(path + own).json["tenant_usage"] == {}

    def test_another_projects_is_not_told(self, tree: Tree, node: Node) -> None:
        booted(tree)

        assert node.client("stranger").get(f"/os-simple-tenant-usage/{project_of(node)}").status == 404
        assert node.client("stranger").get("/os-simple-tenant-usage").status == 403


class TestProjects:
    def names(self, node: Node, user: str, query: str = "") -> list[str]:
        found = node.client(user).get(f"/identity/v3/projects{query}").json["projects"]
        return [project["name"] for project in found]

    def test_an_admin_sees_those_of_users_and_quotas_and_a_member_their_own(self, node: Node) -> None:
        body = {"quota_set": {"instances": 3}}
        node.client().call("PUT", "/os-quota-sets/only-a-quota", body)

        everything = self.names(node, "admin")

        assert {"project-2", "only-a-quota"} < set(everything)
        assert everything == sorted(everything)
        assert self.names(node, "admin", "?name=project-2") == ["project-2"]
        assert self.names(node, "stranger") == ["project-2"]

    def test_one_is_shown_by_its_name(self, node: Node) -> None:
        shown = node.client("stranger").get("/identity/v3/projects/project-2").json["project"]

        assert (shown["id"], shown["name"], shown["enabled"]) == ("project-2", "project-2", True)
        other = f"/identity/v3/projects/{project_of(node)}"
        assert node.client("stranger").get(other).json["itemNotFound"]["error_code"] == "project_not_found"
        assert node.client("").get("/identity/v3").json["version"]["id"].startswith("v3.")


class TestUsers:
    def test_an_admin_sees_all_and_a_member_only_themselves(self, node: Node) -> None:
        everybody = node.client().get("/identity/v3/users").json["users"]
        [stranger] = node.client().get("/identity/v3/users?name=stranger").json["users"]
        [own] = node.client("stranger").get("/identity/v3/users").json["users"]

        assert {"admin", "member", "stranger"} <= {user["name"] for user in everybody}
        assert own == stranger
        assert (own["default_project_id"], own["enabled"]) == ("project-2", True)
        assert node.client("stranger").get("/identity/v3/users?name=admin").json["users"] == []

    def test_one_is_shown_by_its_id(self, node: Node) -> None:
        [stranger] = node.client("stranger").get("/identity/v3/users").json["users"]
        path = f"/identity/v3/users/{stranger['id']}"

        assert node.client().get(path).json["user"] == stranger
        assert node.client("stranger").get(path).json["user"] == stranger
        refused = node.client("member").get(path)
        assert refused.json["itemNotFound"]["error_code"] == "user_not_found"


class TestQuotas:
    def test_one_below_the_use_is_set_by_force_alone(self, tree: Tree, node: Node) -> None:
        booted(tree, 2)
        path = f"/os-quota-sets/{project_of(node)}"

        refused = node.client().call("PUT", path, {"quota_set": {"instances": 1}})
        kept = node.client().get(path).json["quota_set"]["instances"]
        as_used = node.client().call("PUT", path, {"quota_set": {"instances": 2}})
        forced = node.client().call("PUT", path, {"quota_set": {"instances": 1, "force": True}})

        found = refused.json["badRequest"]
        assert (found["error_code"], found["field"]) == ("out_of_range", "quota_set.instances")
        assert kept > 2
        assert as_used.json["quota_set"]["instances"] == 2
        assert forced.json["quota_set"]["instances"] == 1

    def test_their_detail_has_the_use(self, tree: Tree, node: Node) -> None:
        booted(tree, 2)
        group = {"server_group": {"name": "g", "policy": "anti-affinity"}}
        node.client("member").post("/os-server-groups", group)

        quotas = node.client("member").get(f"/os-quota-sets/{project_of(node)}/detail").json["quota_set"]

        small = FLAVOR["flavor"]
        used = {name: quotas[name]["in_use"] for name in ("instances", "cores", "ram", "server_groups")}
        assert used == {
            "instances": 2,
            "cores": 2 * small["vcpus"],
            "ram": 2 * small["ram"],
            "server_groups": 1,
        }
        assert quotas["cores"]["limit"] == -1

    def test_servers_count_with_the_sizes_that_they_have_where_a_flavor_was_made_anew(
        self, tree: Tree, node: Node
    ) -> None:
        admin = node.client()
        for vcpus, count in ((1, 2), (3, 1)):
            flavor = {"id": "f1", "name": "f1", "vcpus": vcpus, "ram": 64 * vcpus, "disk": 1}
            admin.delete("/flavors/f1")
            assert admin.post("/flavors", {"flavor": flavor}).status == 200
            booted(tree, count, flavor="f1")

        absolute = node.client("member").get("/limits").json["limits"]["absolute"]

        assert (absolute["totalCoresUsed"], absolute["totalRAMUsed"]) == (2 * 1 + 3, 64 * 5)

    def test_limits_have_novas_names_too(self, tree: Tree, node: Node) -> None:
        booted(tree, 2)

        absolute = node.client("member").get("/limits").json["limits"]["absolute"]

        assert absolute["maxTotalInstances"] == absolute["project_instances"]
        assert (absolute["totalInstancesUsed"], absolute["totalServerGroupsUsed"]) == (2, 0)
        shapes = {
            minor: at(node, minor, "/limits")["limits"]["absolute"] for minor in (35, 36, 38, 39, 56, 57)
        }
        assert ["maxTotalFloatingIps" in shapes[minor] for minor in (35, 36)] == [True, False]
        assert ["maxImageMeta" in shapes[minor] for minor in (38, 39)] == [True, False]
        assert ["maxPersonality" in shapes[minor] for minor in (56, 57)] == [True, False]

    def test_the_class_is_set_by_options_alone(self, node: Node) -> None:
        path = "/os-quota-class-sets/default"
        present = node.client().get(path).json["quota_class_set"]["instances"]

        same = node.client().call("PUT", path, {"quota_class_set": {"instances": present, "cores": -1}})
        other = node.client().call("PUT", path, {"quota_class_set": {"instances": present + 1}})
        cores = node.client().call("PUT", path, {"quota_class_set": {"cores": 5}})

        assert same.json["quota_class_set"]["instances"] == present
        assert other.json["badRequest"]["field"] == "quota_class_set.instances"
        assert cores.json["badRequest"]["field"] == "quota_class_set.cores"


class TestHosts:
    def test_they_are_listed_by_a_part_of_their_name_with_their_servers(self, tree: Tree, node: Node) -> None:
        uuids = booted(tree, 3)

        found = node.client().get("/os-hypervisors?with_servers=1").json["hypervisors"]

        assert sorted(one["uuid"] for host in found for one in host["servers"]) == uuids
        [first] = node.client().get("/os-hypervisors?hypervisor_hostname_pattern=1").json["hypervisors"]
        assert (first["hypervisor_hostname"], "servers" in first) == ("h1", False)
        assert node.client().get("/os-hypervisors?hypervisor_hostname_pattern=x").status == 404
        [named] = node.client().get("/os-hypervisors/h2/servers").json["hypervisors"]
        [same] = [host for host in found if host["id"] == named["id"]]
        assert named == same

    def test_a_limit_above_the_longest_page_is_that_page(self, node: Node) -> None:
        every = node.client().get("/os-hypervisors").json

        assert node.client().get("/os-hypervisors?limit=5000").json == every

    def test_a_part_of_a_name_is_found_as_it_is_written(self, node: Node) -> None:
        for text in ("H1", "h_", "%"):
            path = f"/os-hypervisors?hypervisor_hostname_pattern={text.replace('%', '%25')}"
            assert node.client().get(path).status == 404, text

    def test_their_statistics_are_the_sums_of_all_hosts(self, tree: Tree, node: Node) -> None:
        booted(tree, 3)
        hosts = node.client().get("/os-hypervisors/detail").json["hypervisors"]

        found = node.client().get("/os-hypervisors/statistics").json["hypervisor_statistics"]

        assert (found["count"], found["running_vms"]) == (2, 3)
        names = (
            "vcpus",
            "vcpus_used",
            "memory_mb",
            "memory_mb_used",
            "free_ram_mb",
            "local_gb",
            "free_disk_gb",
        )
        assert {n: found[n] for n in names} == {n: sum(host[n] for host in hosts) for n in names}
        assert found["vcpus_used"] > 0

    def test_they_are_paged(self, node: Node) -> None:
        first = node.client().get("/os-hypervisors/detail?limit=1").json
        [link] = first["hypervisors_links"]
        rest = node.client().get(link["href"].partition("http://localhost")[2]).json

        assert [len(first["hypervisors"]), len(rest["hypervisors"])] == [1, 1]
        assert first["hypervisors"] != rest["hypervisors"]
        assert "hypervisors_links" not in rest

    def test_they_are_paged_without_a_limit_for_clients_that_know_pages(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hypervisors, "PAGE", 1)
        for path in ("/os-hypervisors", "/os-hypervisors/detail"):
            whole, page = (at(node, minor, path) for minor in (32, 33))

            assert [len(found["hypervisors"]) for found in (whole, page)] == [2, 1], path
            assert "hypervisors_links" not in whole
            assert next_marker(page, "hypervisors") == whole["hypervisors"][0]["id"]
            of_name = at(node, 33, f"{path}?hypervisor_hostname_pattern=h")
            assert of_name == whole

    def test_those_of_a_name_are_paged(self, tree: Tree, node: Node) -> None:
        tree.register("leaf", [a_host("rack-1"), a_host("RACK-1"), a_host("rack-2")])
        asked = "/os-hypervisors?hypervisor_hostname_pattern=rack&limit=1"

        first = node.client().get(asked).json
        second = node.client().get(f"{asked}&marker={next_marker(first, 'hypervisors')}").json

        names = [page["hypervisors"][0]["hypervisor_hostname"] for page in (first, second)]
        assert sorted(names) == ["rack-1", "rack-2"]
        assert "hypervisors_links" not in second

    def test_a_marker_may_be_of_a_removed_host_but_not_a_name(self, node: Node) -> None:
        every = node.client().get("/os-hypervisors").json["hypervisors"]
        before_all = "00000000-0000-0000-0000-000000000000"

        assert node.client().get(f"/os-hypervisors?marker={before_all}").json["hypervisors"] == every
        for marker in ("h1", "1", every[0]["id"].replace("-", "")):
            refused = node.client().get(f"/os-hypervisors?limit=1&marker={marker}")
            fault = refused.json["badRequest"]
            assert (refused.status, fault["error_code"], fault["field"]) == (400, "marker_unknown", "marker")

    def test_their_shape_changes_with_2_88(self, node: Node) -> None:
        shapes = {m: at(node, m, "/os-hypervisors/detail")["hypervisors"][0] for m in (87, 88)}

        assert ["cpu_info" in shapes[minor] for minor in (87, 88)] == [True, False]
        assert ["uptime" in shapes[minor] for minor in (87, 88)] == [False, True]
        assert shapes[88]["service"]["id"] == shapes[88]["id"]
        shown = at(node, 87, f"/os-hypervisors/{shapes[87]['id']}/uptime")["hypervisor"]
        # A text: `openstack hypervisor show` looks for times in it.
        assert shown["uptime"] == ""

    def test_the_older_call_shows_and_disables_them(self, tree: Tree, node: Node) -> None:
        booted(tree)
        call = node.client().call

        listed = node.client().get("/os-hosts?zone=az2").json["hosts"]
        shown = [node.client().get(f"/os-hosts/{name}").json["host"] for name in ("h1", "h2")]

        assert listed == [{"host_name": "h2", "service": "compute", "zone": "az2"}]
        assert [rows[0]["resource"]["cpu"] for rows in shown] == [16, 16]
        assert sum(rows[1]["resource"]["cpu"] for rows in shown) == FLAVOR["flavor"]["vcpus"]
        assert call("PUT", "/os-hosts/h2", {"status": "disable"}).json == {"host": "h2", "status": "disabled"}
        assert call("PUT", "/os-hosts/h2", {"status": "enable"}).json["status"] == "enabled"
        for wrong in ({}, {"maintenance_mode": "enable"}, {"status": "off"}):
            assert call("PUT", "/os-hosts/h2", wrong).status == 400
        assert node.client().get("/os-hosts/h9").status == 404


class TestInside:
    def test_a_running_server_has_diagnostics(self, tree: Tree, node: Node) -> None:
        [uuid] = booted(tree)
        tree.clock.advance(HOUR_S)

        found = node.client("member").get(f"/servers/{uuid}/diagnostics").json

        small = FLAVOR["flavor"]
        assert (found["state"], found["num_cpus"]) == ("running", small["vcpus"])
        assert found["memory_details"] == {"maximum": small["ram"], "used": None}
        assert found["uptime"] == pytest.approx(HOUR_S, abs=60)
        assert at(node, 47, f"/servers/{uuid}/diagnostics", "member") == {"memory": small["ram"] * 1024}

    def test_the_uptime_is_not_negative_after_the_clock_was_set_back(self, tree: Tree, node: Node) -> None:
        [uuid] = booted(tree)
        tree.clock.set_to(tree.clock.now() - HOUR_S)

        assert node.client("member").get(f"/servers/{uuid}/diagnostics").json["uptime"] == 0

    @pytest.mark.parametrize(
        ("action", "status"),
        [
            ("os-stop", "SHUTOFF"),
            ("pause", "PAUSED"),
            ("suspend", "SUSPENDED"),
            ("shelve", "SHELVED_OFFLOADED"),
        ],
    )
    def test_one_that_was_stopped_has_none(self, tree: Tree, node: Node, action: str, status: str) -> None:
        [uuid] = booted(tree)
        node.client("member").post(f"/servers/{uuid}/action", {action: None})
        tree.settle()
        PlayedAgent(node).converge()

        refused = node.client("member").get(f"/servers/{uuid}/diagnostics")

        message = f"The server is {status}: only one that runs has diagnostics."
        assert (refused.status, refused.json["conflictingRequest"]["message"]) == (409, message)

    def test_one_that_does_not_run_has_none(self, node: Node) -> None:
        body = {"server": {"name": "vm", "flavorRef": "small"}}
        uuid = node.client("member").post("/servers", body).json["server"]["id"]

        refused = node.client("member").get(f"/servers/{uuid}/diagnostics")

        assert (refused.status, refused.json["conflictingRequest"]["error_code"]) == (
            409,
            "instance_not_active",
        )

    @pytest.mark.parametrize(
        ("method", "path", "body", "status"),
        [
            ("GET", "topology", None, 200),
            ("GET", "os-server-password", None, 200),
            ("DELETE", "os-server-password", None, 204),
            ("POST", "remote-consoles", {"remote_console": {"protocol": "vnc", "type": "novnc"}}, 400),
            ("GET", "migrations", None, 200),
            ("GET", "migrations/1", None, 404),
            ("DELETE", "migrations/1", None, 404),
            ("POST", "migrations/1/action", {"force_complete": None}, 404),
        ],
    )
    def test_what_a_zone_does_not_have_is_empty_or_refused(
        self, tree: Tree, node: Node, method: str, path: str, body: Any, status: int
    ) -> None:
        [uuid] = booted(tree)

        own = node.client("member").call(method, f"/servers/{uuid}/{path}", body)
        others = node.client("stranger").call(method, f"/servers/{uuid}/{path}", body)

        assert own.status == status
        assert (others.status, others.json["itemNotFound"]["error_code"]) == (404, "instance_not_found")


def test_events_of_networks_are_taken_and_nothing_follows(tree: Tree, node: Node) -> None:
    [uuid] = booted(tree)
    event = {"name": "network-changed", "server_uuid": uuid, "tag": "port"}

    taken = node.client().post("/os-server-external-events", {"events": [event]})
    half = node.client().post(
        "/os-server-external-events", {"events": [event, {**event, "server_uuid": NOBODY}]}
    )
    other = node.client().post("/os-server-external-events", {"events": [{**event, "name": "power-update"}]})

    assert (taken.status, taken.json["events"]) == (200, [{**event, "code": 200, "status": "completed"}])
    assert (half.status, [one["code"] for one in half.json["events"]]) == (207, [200, 404])
    assert other.json["badRequest"]["field"] == "events.0.name"


def test_an_event_without_a_tag_is_answered_without_one(tree: Tree, node: Node) -> None:
    [uuid] = booted(tree)
    event = {"name": "network-changed", "server_uuid": uuid}

    taken = node.client().post("/os-server-external-events", {"events": [event]})

    assert taken.json["events"] == [{**event, "code": 200, "status": "completed"}]


def test_an_image_is_found_by_name_and_has_its_properties_as_metadata(node: Node) -> None:
    for name in ("debian", "fedora"):
        body = {"image": {"id": name, "name": name, "properties": {"os": name}}}
        node.client().post("/images", body)

    [found] = node.client("member").get("/images/detail?name=fedora&unknown=1").json["images"]

    assert found["id"] == "fedora"
    assert node.client("member").get("/images/fedora/metadata").json == {"metadata": {"os": "fedora"}}
    assert node.client("member").get("/images/fedora/metadata/os").json == {"meta": {"os": "fedora"}}
    assert node.client("member").get("/images/fedora/metadata/x").status == 404
