"""A real zone with https: whom it serves, who cannot hold it up, and what it reads again on a signal."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import requests
from cryptography import x509

from tests.builders.raw_server import Authority
from tests.builders.real_processes import children_of, eventually, free_port
from tests.builders.zone_processes import Story, launched, write_conf
from zonesched.compute.credentials import (
    Credentials,
    CredentialsError,
    read_credentials,
    write_credentials,
)

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]
THREADS = 2
LATE_S = 5.0
"""Well below the 20 or 30 seconds that a slow caller would hold a thread, also on a busy machine."""
KEY = "ab" * 32
LOCALHOST = x509.DNSName("localhost")


@dataclass
class Zone:
    """A launched zone. `heard`: the lines that it has written."""

    process: subprocess.Popen[str]
    port: int
    folder: Path
    config: Path
    authority: Authority
    heard: deque[str] = field(default_factory=deque)

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @property
    def credentials(self) -> Path:
        return self.folder / "state/admin.credentials"

    def get(self, path: str) -> requests.Response:
        kept = read_credentials(self.credentials)
        auth = (kept.username, kept.password)
        return requests.get(self.url + path, auth=auth, verify=str(self.authority.ca_file), timeout=60)

    def command(self, capsys: pytest.CaptureFixture[str]) -> Story:
        trusting = ["--cacert", str(self.authority.ca_file)]
        return Story(["--credentials", str(self.credentials), "--zone-url", self.url, *trusting], capsys)

    def wrote(self, text: str) -> bool:
        return any(text in line for line in tuple(self.heard))

    def answers(self) -> bool:
        with suppress(requests.ConnectionError, requests.Timeout, CredentialsError):
            return self.get("/readiness").status_code == 200
        return False


def launch(stack: ExitStack, folder: Path, authority: Authority, *options: str) -> Zone:
    folder.mkdir()
    pem = folder / "zone.pem"
    pem.write_bytes(authority.server_pem(LOCALHOST).read_bytes())
    pem.chmod(0o600)
    port = free_port()
    config = write_conf(folder, port, f"tls_certificate_file = {pem}", f"api_threads = {THREADS}", *options)
    process = stack.enter_context(launched("zonesched.serving", "--config-file", str(config)))
    zone = Zone(process, port, folder, config, authority)
    # Its lines fill the pipe otherwise.
    threading.Thread(target=lambda: zone.heard.extend(process.stdout or ()), daemon=True).start()
    eventually("the zone answers", zone.answers, timeout_s=180.0)
    return zone


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Zone]:
    with ExitStack() as stack:
        yield launch(stack, tmp_path_factory.mktemp("https") / "zone", authority)


def test_a_command_that_trusts_the_authority_is_served(
    zone: Zone, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = zone.command(capsys)
    command("flavor", "create", "small", "--vcpus", "1", "--ram", "64")

    made = tmp_path / "agent.credentials"
    command("user", "create", "agent", "--role", "compute", "--save", str(made))

    assert [flavor["name"] for flavor in command.json("flavor", "list")["flavors"]] == ["small"]
    assert zone.get("/flavors").json()["flavors"][0]["links"][0]["href"].startswith("https://")
    assert read_credentials(made).cacert == str(zone.authority.ca_file)
    assert zone.wrote(f"https://127.0.0.1:{zone.port}")


def test_a_command_that_trusts_another_authority_is_told_why(
    zone: Zone, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = Authority(tmp_path)
    options = ["--credentials", str(zone.credentials), "--zone-url", zone.url, "--cacert", str(other.ca_file)]

    said = Story(options, capsys)("user", "list", code=3)

    assert "certificate verify failed" in said
    assert "--cacert" in said


def test_a_tree_is_made_with_the_authority_that_the_command_or_its_environment_names(
    zone: Zone, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_credentials(
        tmp_path / "zone.credentials", replace(read_credentials(zone.credentials), url=zone.url)
    )
    tree, saved = tmp_path / "tree.toml", tmp_path / "two.credentials"
    user = f"[zones.one.users.two]\nrole = 'compute'\nsave = '{saved}'\n"
    tree.write_text(f"[zones.one]\ncredentials = 'zone.credentials'\n{user}")
    ca_file = zone.authority.ca_file
    monkeypatch.chdir(ca_file.parent)
    apply = Story(["federation", "apply", str(tree)], capsys)

    assert "1 step done" in apply("--cacert", ca_file.name)
    monkeypatch.setenv("ZONESCHED_CACERT", str(ca_file))
    assert "1 zones are as the file says" in apply()

    assert read_credentials(saved).cacert == str(ca_file)


def test_a_file_of_authorities_that_is_not_there_is_named(
    zone: Zone, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gone = tmp_path / "gone.pem"
    write_credentials(
        tmp_path / "agent.credentials", Credentials(zone.url, "agent", "x" * 43, cacert=str(gone))
    )
    (tmp_path / "hosts.csv").write_text("name,VCPU,MEMORY_MB\nh1,8,4096\n")
    files = ["--credentials", str(tmp_path / "agent.credentials"), "--inventory", str(tmp_path / "hosts.csv")]

    with launched("zonesched.compute.main", *files) as agent:
        assert agent.stdout is not None
        line = agent.stdout.readline()

    assert f"invalid path: {gone}" in line
    assert "Traceback" not in line


def test_an_agent_that_trusts_the_authority_registers_its_hosts(
    zone: Zone, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command, made, inventory = zone.command(capsys), tmp_path / "one.credentials", tmp_path / "hosts.csv"
    command("user", "create", "one", "--role", "compute", "--save", str(made))
    inventory.write_text("name,VCPU,MEMORY_MB\nh1,8,4096\n")

    with launched("zonesched.compute.main", "--credentials", str(made), "--inventory", str(inventory)):
        eventually("its host is there", lambda: zone.get("/os-hypervisors").json()["hypervisors"])


def test_callers_that_do_not_finish_their_handshake_hold_nobody_up(zone: Zone) -> None:
    context = ssl.create_default_context(cafile=str(zone.authority.ca_file))
    with ExitStack() as stack:
        for number in range(60):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", zone.port), timeout=20))
            match number % 3:
                case 0:
                    pass
                case 1:
                    # The start of a record that never ends.
                    sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
                case 2:
                    secured = stack.enter_context(context.wrap_socket(sock, server_hostname="localhost"))
                    secured.sendall(b"GET /flavors HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        begun_at = time.monotonic()

        for _ in range(10):
            assert zone.get("/flavors").status_code == 200

        assert time.monotonic() - begun_at < LATE_S


def test_a_caller_without_tls_is_cut_off(zone: Zone) -> None:
    with pytest.raises(requests.ConnectionError):
        requests.get(f"http://localhost:{zone.port}/health", timeout=10)
    assert zone.get("/health").status_code == 200


def test_the_metrics_have_the_server_of_the_process(zone: Zone) -> None:
    text = zone.get("/metrics").text

    assert f"zonesched_request_threads {THREADS}.0\n" in text
    assert "zonesched_requests_running 1.0\n" in text


def test_the_state_of_the_process_is_written_on_a_signal(zone: Zone) -> None:
    def reports() -> list[str]:
        return [line for line in tuple(zone.heard) if "state of this process" in line]

    def reports_no_request() -> bool:
        known = len(reports())
        zone.process.send_signal(signal.SIGUSR2)
        eventually("the report is written", lambda: len(reports()) > known)
        return "requests: 0 running of 2" in reports()[-1]

    # The request before this one counts until its thread has ended it.
    eventually("no request is running", reports_no_request)
    for part in ("boots: 0 waiting", "thread reaper", "hosts: "):
        assert part in reports()[-1]
    assert zone.answers()


def certificate_of(zone: Zone) -> bytes:
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("localhost", zone.port), timeout=60)) or b""


def test_a_new_certificate_is_used_after_a_signal_and_nobody_is_refused(zone: Zone) -> None:
    before, failed, over = certificate_of(zone), [], threading.Event()
    old = children_of(zone.process.pid)

    def call() -> None:
        while not over.is_set():
            if zone.get("/flavors").status_code != 200:
                failed.append(1)

    caller = threading.Thread(target=call)
    caller.start()
    (zone.folder / "zone.pem").write_bytes(zone.authority.server_pem(LOCALHOST).read_bytes())
    with zone.config.open("a") as file:
        file.write("\nmax_server_groups = 7\nbind_port = 1\n")
    zone.process.send_signal(signal.SIGHUP)

    eventually("the new certificate is shown", lambda: certificate_of(zone) != before, timeout_s=180.0)
    eventually("the old worker has ended", lambda: children_of(zone.process.pid).isdisjoint(old))
    over.set()
    caller.join(30)
    assert failed == []
    assert zone.wrote("option bind_port has changed and stays as it was until a restart")
    assert zone.wrote("changed options: max_server_groups")


def test_a_configuration_that_cannot_be_used_changes_nothing(zone: Zone) -> None:
    before = certificate_of(zone)
    (zone.folder / "zone.pem").write_text("no certificate")

    zone.process.send_signal(signal.SIGHUP)

    eventually("the refusal is written", lambda: zone.wrote("the configuration stays as it was"))
    assert certificate_of(zone) == before
    assert zone.answers()


def test_a_parent_shows_its_certificate_where_the_child_asks_for_one(
    tmp_path: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = (f"build_plan_encryption_key = {KEY}", f"secret_encryption_key = {KEY}")
    networks = ("child_networks = loopback", f"child_ca_file = {authority.ca_file}")
    shown = tmp_path / "shown.pem"
    shown.write_bytes(authority.server_pem(x509.DNSName("root.example.org")).read_bytes())
    with ExitStack() as stack:
        leaf = launch(stack, tmp_path / "leaf", authority, *keys, f"tls_client_ca_file = {authority.ca_file}")
        bare = launch(stack, tmp_path / "bare", authority, *keys, *networks)
        certified = f"child_certificate_file = {shown}"
        root = launch(stack, tmp_path / "root", authority, *keys, *networks, certified)
        made = tmp_path / "parent.credentials"
        leaf.command(capsys)("user", "create", "parent", "--role", "parent", "--save", str(made))
        add = ("zone", "add", "leaf", leaf.url, "--child-credentials", str(made))

        refused = bare.command(capsys)(*add, code=1)
        root.command(capsys)(*add)

        parent = read_credentials(made)
        answer = requests.get(
            leaf.url + "/zones/info",
            auth=(parent.username, parent.password),
            verify=str(authority.ca_file),
            timeout=10,
        )
        assert answer.json()["forbidden"]["error_code"] == "client_certificate_needed"
        assert "child_certificate_file" in refused
        zones = root.command(capsys)
        eventually("the child is ready", lambda: zones.json("zone", "list")["zones"][0]["state"] == "ready")
