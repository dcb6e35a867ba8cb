"""The launcher of a zone, and the command and the agent against a zone that it launched."""

from __future__ import annotations

import http.client
import json
import os
import platform
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner

from tests.builders.real_processes import eventually, free_port
from tests.builders.zone_processes import Story, answers, launched, write_conf
from zonesched import conf
from zonesched.compute.credentials import Credentials, read_credentials, write_credentials
from zonesched.errors import DatabaseFull
from zonesched.model.caller import Role
from zonesched.seal.shortcomings import shortcomings
from zonesched.services.catalog import users
from zonesched.services.zone import Zone
from zonesched.serving import run_zone
from zonesched.serving.master import GRACEFUL_S
from zonesched.serving.run_zone import prepare, zone_url
from zonesched.serving.server import MEMORY_FOLDER, is_in_memory

KEY = "ab" * 32


def a_conf(folder: Path, **overrides: object) -> conf.Conf:
    return conf.load((), {"state_path": str(folder / "state"), **overrides})


def open_files(pid: str) -> list[str]:
    """Return what a process has open; it may close some of these meanwhile."""
    found: list[str] = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(os.readlink(descriptor))
    return found


class TestFirstAdmin:
    def test_it_is_made_once_and_its_password_is_its_owners_only(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "state/admin.credentials"
        prepare(a_conf(tmp_path))
        first = read_credentials(path)
        prepare(a_conf(tmp_path))
        assert read_credentials(path) == first
        assert (first.url, first.username) == ("http://127.0.0.1:8790", "admin")
        assert len(first.password) == 43
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        said = capsys.readouterr()
        assert str(path) in said.err
        assert first.password not in said.out + said.err

    def test_it_is_not_made_where_its_password_cannot_be_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "state/admin.credentials"
        path.parent.mkdir(mode=0o700)
        path.mkdir()
        with pytest.raises(OSError, match=r"admin\.credentials"):
            prepare(a_conf(tmp_path))
        path.rmdir()
        prepare(a_conf(tmp_path))
        assert self.is_admin(tmp_path)

    def test_a_password_from_a_start_that_broke_off_is_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "state/admin.credentials"
        path.parent.mkdir(mode=0o700)
        write_credentials(path, Credentials("http://127.0.0.1:8790", "admin", "of nobody"))
        prepare(a_conf(tmp_path))
        assert self.is_admin(tmp_path)

    @staticmethod
    def is_admin(folder: Path) -> bool:
        """Tell whether the file of credentials is the zone's admin's."""
        kept = read_credentials(folder / "state/admin.credentials")
        zone = Zone.open(a_conf(folder))
        try:
            return users.authenticate(zone, kept.username, kept.password).role is Role.ADMIN
        finally:
            zone.stop()

    def test_a_zone_without_authentication_needs_none(self, tmp_path: Path) -> None:
        prepare(a_conf(tmp_path, auth_strategy="noauth"))
        assert not (tmp_path / "state/admin.credentials").exists()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8790"),
        ("0.0.0.0", "http://127.0.0.1:8790"),
        ("::", "http://127.0.0.1:8790"),
        ("::1", "http://[::1]:8790"),
        ("zone.example", "http://zone.example:8790"),
    ],
)
def test_the_url_is_where_this_machine_reaches_the_zone(host: str, url: str) -> None:
    assert zone_url(conf.load((), {"bind_host": host})) == url


class TestShortcomings:
    COMPLETE = {"build_plan_encryption_key": [KEY], "secret_encryption_key": KEY}

    def test_a_complete_zone_has_none(self) -> None:
        assert shortcomings(conf.load((), self.COMPLETE)) == []

    @pytest.mark.parametrize(
        ("overrides", "said"),
        [
            ({"build_plan_encryption_key": []}, "is not set): it boots on its local hosts and refuses"),
            ({"build_plan_encryption_key": [conf.SAMPLE_KEY]}, "the published key"),
            ({"build_plan_encryption_key": ["abcd"]}, "4 hex digits where 64 are needed"),
            ({"secret_encryption_key": ""}, "cannot keep credentials of child zones"),
            ({"auth_strategy": "noauth"}, "every caller is trusted as its admin"),
            ({"bind_host": "0.0.0.0"}, "plain http on 0.0.0.0"),
        ],
    )
    def test_each_is_said_in_a_line_of_its_own(self, overrides: dict[str, object], said: str) -> None:
        [line] = shortcomings(conf.load((), {**self.COMPLETE, **overrides}))
        assert said in line


GROWTH = """
import os, sys, threading
from zonesched.serving.server import keep_to_one_heap

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

def use_20_mb(turn, end):
    turn.wait()
    texts = [bytes(1000) for _ in range(20_000)]
    # The last one stays, so that the heap cannot become shorter.
    last = texts.pop()
    del texts
    done.release()
    end.wait()

if sys.argv[1] == "one":
    keep_to_one_heap()
end, done = threading.Event(), threading.Semaphore(0)
turns = [threading.Event() for _ in range(8)]
threads = [threading.Thread(target=use_20_mb, args=(turn, end)) for turn in turns]
for thread in threads:
    thread.start()
before = resident_mb()
for turn in turns:
    turn.set()
    done.acquire()
print(resident_mb() - before)
end.set()
"""


def grown_mb(heaps: str) -> float:
    """MB by which a process has grown once eight threads, one after the other, used 20 MB each."""
    command = [sys.executable, "-c", GROWTH, heaps]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives each thread a heap")
def test_threads_that_work_one_after_the_other_take_the_memory_of_one() -> None:
    assert grown_mb("one") < 40 < grown_mb("many")


@pytest.mark.slow
class TestLauncher:
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("api_threads = 0", "Option api_threads: '0' is not accepted. Accepted: a whole number from 1"),
            ("enabled_filters = NoSuchFilter", "NoSuchFilter"),
            ("scheduler_driver = NoSuchScheduler", "NoSuchScheduler"),
            ("weight_classes = NoSuchWeigher", "NoSuchWeigher"),
            ("state_path = /dev/null/zone", "Option state_path: /dev/null/zone cannot be written: Not a dir"),
            ("database_url = nonsense", "Option database_url: the value is not accepted. Accepted: "),
            ("database_url = nosuch:///zone", "Option database_url: the value is not accepted. Accepted: "),
            (
                "database_url = sqlite:////dev/null/z.sqlite",
                "Option database_url: /dev/null cannot be written: Not",
            ),
            ("database_url = sqlite:////dev", "Option database_url: /dev cannot be written: Is a directory"),
            ("database_url = sqlite://", "Option database_url: the value is not accepted. Accepted: "),
            ("audit_log = /dev/null/audit", "Option audit_log: /dev/null/audit cannot be written: Not a dir"),
        ],
    )
    def test_a_wrong_configuration_is_one_line(self, tmp_path: Path, line: str, said: str) -> None:
        path = write_conf(tmp_path, free_port(), line)
        with launched("zonesched.serving", "--config-file", str(path)) as zone:
            out, _ = zone.communicate(timeout=60)
        assert zone.returncode == 1
        assert said in out
        assert out.count("\n") == 1

    def test_a_full_disk_is_one_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise DatabaseFull("This zone's database is full.", 30)

        monkeypatch.setattr(run_zone, "EarlySignals", object)
        monkeypatch.setattr(Zone, "open", full)
        config = write_conf(tmp_path, free_port())

        started = CliRunner().invoke(run_zone.main, ["--config-file", str(config)])

        assert (started.exit_code, started.output) == (1, "Error: This zone's database is full.\n")

    def test_a_busy_port_is_named(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as busy:
            path = write_conf(tmp_path, busy.getsockname()[1])
            with launched("zonesched.serving", "--config-file", str(path)) as zone:
                out, _ = zone.communicate(timeout=60)
        assert zone.returncode == 1
        assert "is in use: stop what listens there, or choose another with bind_port" in out

    @pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system binds no process")
    def test_its_threads_share_one_processor(self, tmp_path: Path) -> None:
        port = free_port()
        path = write_conf(tmp_path, port)
        with launched("zonesched.serving", "--config-file", str(path)) as zone:
            eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
            (serving,) = Path(f"/proc/{zone.pid}/task/{zone.pid}/children").read_text().split()
            threads = [int(thread.name) for thread in Path(f"/proc/{serving}/task").iterdir()]
            bound_to = {frozenset(os.sched_getaffinity(thread)) for thread in threads}
        assert len(threads) > 10
        assert [len(processors) for processors in bound_to] == [1]

    @pytest.mark.skipif(not is_in_memory(MEMORY_FOLDER), reason="this system has no folder in memory")
    def test_its_heartbeat_to_the_first_process_is_not_on_a_disk(self, tmp_path: Path) -> None:
        port = free_port()
        path = write_conf(tmp_path, port)
        with launched("zonesched.serving", "--config-file", str(path)) as zone:
            eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
            (serving,) = Path(f"/proc/{zone.pid}/task/{zone.pid}/children").read_text().split()
            folders = [Path(file).parent for file in open_files(serving) if "wgunicorn-" in file]
        assert folders == [MEMORY_FOLDER]

    def test_it_serves_until_it_is_asked_to_end(self, tmp_path: Path) -> None:
        port = free_port()
        path = write_conf(tmp_path, port)
        with launched("zonesched.serving", "--config-file", str(path)) as zone:
            eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
            zone.send_signal(signal.SIGTERM)
            out, _ = zone.communicate(timeout=60)
        assert zone.returncode == 0
        assert f"listens on http://127.0.0.1:{port}." in out
        assert "refuses select" in out
        assert "Traceback" not in out

    def test_links_begin_with_https_where_a_proxy_on_another_machine_says_so(self, tmp_path: Path) -> None:
        port = free_port()
        config = write_conf(tmp_path, port)
        with launched("zonesched.serving", "--config-file", str(config)):
            eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
            found = http.client.HTTPConnection("127.0.0.1", port, 30, source_address=("127.0.0.2", 0))
            with closing(found):
                # A path of its own is nothing that a caller may claim.
                found.request("GET", "/v2.1/", headers={"X-Forwarded-Proto": "https", "PATH_INFO": "/health"})
                version = json.loads(found.getresponse().read())["version"]
        assert version["links"][0]["href"] == f"https://127.0.0.1:{port}/v2.1/"

    def test_killed_it_is_gone_soon_though_a_caller_goes_on_over_its_connection(self, tmp_path: Path) -> None:
        # given a caller that has a connection to the zone
        port = free_port()
        conf = write_conf(tmp_path, port)
        with launched("zonesched.serving", "--config-file", str(conf)) as process:
            eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
            caller = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            caller.connect()
            caller.auto_open = 0

            # when its first process is killed, and the caller goes on as long as it is answered
            process.kill()
            killed_at = time.monotonic()
            with closing(caller), suppress(OSError, http.client.HTTPException):
                while time.monotonic() < killed_at + GRACEFUL_S:
                    caller.request("GET", "/health")
                    caller.getresponse().read()
                    # Callers poll a real zone that is about to end.
                    time.sleep(0.1)

            # then the process that serves ends too, and does not wait for the caller
            assert process.stdout is not None
            process.stdout.read()
            assert time.monotonic() < killed_at + GRACEFUL_S / 2

    def test_told_to_end_it_ends_by_itself_though_a_caller_goes_on_sending(self, tmp_path: Path) -> None:
        # given a caller that the zone knows, which sends a body slowly
        port = free_port()
        conf = write_conf(tmp_path, port)
        with launched("zonesched.serving", "--config-file", str(conf)) as process:
            eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
            admin = read_credentials(tmp_path / "state/admin.credentials")
            known = requests.get(f"http://127.0.0.1:{port}/servers", auth=(admin.username, admin.password))
            head = (
                f"Host: z\r\nAuthorization: {known.request.headers['Authorization']}\r\nContent-Length: 99999"
            )
            with socket.create_connection(("127.0.0.1", port), 60) as caller:
                caller.sendall(f"POST /servers HTTP/1.1\r\n{head}\r\n\r\n".encode() + b" " * 50_000)
                # A further call is answered after the bytes were received.
                assert answers(f"http://127.0.0.1:{port}")

                # when it is told to end
                process.terminate()
                told_at = time.monotonic()
                out, _ = process.communicate(timeout=2 * GRACEFUL_S)

            # then there is time left to give back its boots before it is killed
            assert time.monotonic() < told_at + GRACEFUL_S - 5
            assert "Traceback" not in out
            assert process.returncode == 0


@pytest.mark.slow
def test_every_command_works_on_a_real_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    keys = [f"build_plan_encryption_key = {KEY}", f"secret_encryption_key = {KEY}"]
    path = write_conf(tmp_path, port, *keys, "child_networks = loopback", "zone_db_check_interval = 0.2")
    agent_file = tmp_path / "agent.credentials"
    agent = [
        "--credentials",
        str(agent_file),
        "--inventory",
        "etc/zonesched/hosts.csv",
        "--poll-seconds",
        "0.2",
    ]
    with launched("zonesched.serving", "--config-file", str(path)):
        eventually("the zone answers", lambda: answers(f"http://127.0.0.1:{port}"))
        ask = Story(["--credentials", str(tmp_path / "state/admin.credentials")], capsys)
        ask("user", "create", "agent", "--role", "compute", "--save", str(agent_file))
        with launched("zonesched.compute.main", *agent):
            eventually("the hosts are up", lambda: ask("host", "list").count(" up ") == 5)
            hosts_and_flavors(ask)
            boots_and_servers(ask)
            children_and_users(ask, tmp_path)
        assert "no inconsistencies" in ask("audit")


@pytest.mark.slow
def test_a_tree_without_authentication_boots_on_real_zones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ports = {name: free_port() for name in ("root", "child")}
    urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    agent = ["--inventory", "etc/zonesched/hosts.csv", "--poll-seconds", "0.2"]
    lines = [
        "auth_strategy = noauth",
        f"build_plan_encryption_key = {KEY}",
        f"secret_encryption_key = {KEY}",
        "child_networks = loopback",
        "zone_db_check_interval = 0.2",
        "instance_sync_interval = 1",
    ]
    with ExitStack() as running:
        for name, port in ports.items():
            (tmp_path / name).mkdir()
            path = write_conf(tmp_path / name, port, *lines)
            running.enter_context(launched("zonesched.serving", "--config-file", str(path)))
            eventually("the zone answers", lambda url=urls[name]: answers(url))
        running.enter_context(launched("zonesched.compute.main", "--zone-url", urls["child"], *agent))
        ask = Story(["--zone-url", urls["root"]], capsys)
        (tmp_path / "secret").write_text("whatever")
        there = ["--child-username", "whoever", "--child-password-file", str(tmp_path / "secret")]
        ask("zone", "add", "child", urls["child"], *there)
        eventually("the child's hosts are known", lambda: "VCPU" in ask("zone", "info"))
        ask("flavor", "create", "small", "--vcpus", "1", "--ram", "256")
        assert "ACTIVE=7" in ask("zone", "boot", "--flavor", "small", "--name", "w", "-n", "7", "--watch")
        assert "no inconsistencies" in ask("audit")


def hosts_and_flavors(ask: Story) -> None:
    assert "0 / 128" in ask("host", "show", "general-1")
    assert "VCPU" in ask("zone", "info")
    flavor_id = ask(
        "flavor", "create", "small", "--vcpus", "2", "--ram", "512", "--extra", "trait:A=required"
    )
    assert "trait:A=required" in ask("flavor", "list")
    ask("flavor", "set", "small", "--extra", "trait:HW_CPU_X86_AVX2=required", "--unset", "trait:A")
    assert "HW_CPU_X86_AVX2" in ask("flavor", "show", flavor_id.strip())
    ask("image", "create", "plain", "--property", "os=linux")
    assert "os=linux" in ask("image", "list") + ask("image", "show", "plain")


def boots_and_servers(ask: Story) -> None:
    booting = ["zone", "boot", "--flavor", "small", "--image", "plain", "--name", "web"]
    assert "ACTIVE=3" in ask(*booting, "-n", "3", "--watch")
    reservation = ask(*booting, "-n", "2", "--idempotency-key", "k").strip()
    assert ask(*booting, "-n", "2", "--idempotency-key", "k").strip() == reservation
    ask("reservation", "show", reservation, "--watch")
    assert ask("reservation", "show", reservation, "--instances").count("ACTIVE") >= 2
    servers = ask.json("server", "list", "--reservation", reservation)["servers"]
    assert isinstance(servers, list)
    assert [server["status"] for server in servers] == ["ACTIVE", "ACTIVE"]
    ask("server", "show", servers[0]["id"])
    ask("server", "delete", *(server["id"] for server in servers))
    assert "DELETED" in ask("reservation", "show", reservation)
    assert "(flavor_unknown)" in ask("zone", "boot", "--flavor", "huge", "--name", "x", code=1)
    assert "no_valid_host" in ask(*booting, "-n", "1000", "--watch", code=1)


def children_and_users(ask: Story, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    there = ["--child-username", "parent-nova", "--child-password-file", str(tmp_path / "secret")]
    ask("zone", "add", "eu", f"http://127.0.0.1:{free_port()}", *there)
    eventually("the child counts as away", lambda: "child_unreachable" in ask("zone", "list"))
    assert "7" in ask("zone", "set", "eu", "--weight-offset", "7")
    shown = ask("zone", "show", "eu")
    assert "parent-nova" in shown
    assert "s3cret" not in shown
    ask("zone", "delete", "eu")
    ask("zone", "show", "eu", code=4)
    assert "parent-root" in ask("user", "create", "parent-root", "--role", "parent") + ask("user", "list")
    first, second = (ask("user", "set", "parent-root", "--new-secret") for _ in range(2))
    assert "secret" in first
    assert first != second
    ask("user", "delete", "parent-root")
    assert "(user_not_found)" in ask("user", "delete", "parent-root", code=4)
    ask("image", "delete", "plain")
    ask("flavor", "delete", "small")
    ask("flavor", "show", "small", code=4)
