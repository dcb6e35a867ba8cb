"""The `zonesched` command: what it sends, what it prints, and how it ends."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from tests.builders.command import Command
from tests.builders.stub_zone import StubZone, fault, running_stub
from zonesched.cli.main import NOUNS, run, zonesched
from zonesched.cli.session import Session, connect
from zonesched.cli.waiting import waiting_line
from zonesched.compute.connection import ZoneConnection, ZoneUnavailable
from zonesched.compute.credentials import Credentials, CredentialsError, read_credentials, write_credentials

pytestmark = pytest.mark.once

CHECKOUT = Path(__file__).parents[2]

FLAVOR = {"id": "f1", "name": "small", "vcpus": 1, "ram": 512, "disk": 1, "extra_specs": {}}
VCPU = {
    "used": 3,
    "capacity": 16,
    "total": 8,
    "reserved": 4,
    "allocation_ratio": 4.0,
    "agent_excess": -2,
    "set": {"allocation_ratio": 4.0},
}
IMAGE = {"id": "i1", "name": "cirros", "properties": {}}


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "USERNAME", "PASSWORD", "CREDENTIALS"):
        monkeypatch.delenv(f"ZONESCHED_{name}", raising=False)


@pytest.fixture
def stub() -> Iterator[StubZone]:
    with running_stub() as running:
        yield running


class StubCommand(Command):
    """Runs commands against the stub as one user."""

    def __init__(self, capsys: pytest.CaptureFixture[str], stub: StubZone) -> None:
        super().__init__(capsys, "--zone-url", stub.url, "--username", "ann")
        self.stub = stub


@pytest.fixture
def command(stub: StubZone, capsys: pytest.CaptureFixture[str]) -> StubCommand:
    return StubCommand(capsys, stub)


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class TestHowItEnds:
    @pytest.mark.parametrize(
        ("status", "code", "exit_code"),
        [
            (400, "invalid_value", 1),
            (401, "unauthorized", 1),
            (403, "forbidden", 1),
            (404, "url_unknown", 4),
            (409, "conflict", 1),
            (429, "over_limit", 1),
            (500, "internal_error", 3),
            (503, "unavailable", 3),
        ],
    )
    def test_an_error_is_one_line_with_its_code(
        self, command: StubCommand, status: int, code: str, exit_code: int
    ) -> None:
        command.stub.answer("GET", "/zones/detail", fault(status, code, "It cannot\nbe done."))
        assert command("zone", "list") == exit_code
        assert command.err == f"zonesched: It cannot be done. ({code})\n"
        assert command.out == ""

    def test_no_answer_drives_the_terminal(self, command: StubCommand) -> None:
        image = {"id": "i1", "name": "a\x1b[2Jb\x9b2Jc", "properties": {"k": "\x1b]0;title\x07"}}
        command.stub.answer("GET", "/images/detail", (200, {"images": [image]}))
        for form in ([], ["-o", "csv"], ["-o", "value"]):
            assert command("image", "list", *form) == 0
            assert "a\ufffd[2Jb\ufffd2Jc" in command.out
            assert not re.search(r"[\x1b\x9b\x07]", command.out)
        command.stub.answer("GET", "/images/detail", fault(403, "for\x9bbidden", "No\x1b[2J."))
        assert command("image", "list") == 1
        assert command.err == "zonesched: No\ufffd[2J. (for\ufffdbidden)\n"

    def test_a_foreign_error_body_is_told_by_its_status(self, command: StubCommand) -> None:
        command.stub.answer("GET", "/zones/detail", (403, b"<html>no</html>"))
        assert command("zone", "list") == 1
        assert command.err == "zonesched: Forbidden (403)\n"

    @pytest.mark.parametrize(
        "answer",
        [(302, {}), (200, b"<html>hello</html>"), (200, {"status": "ok"}), (200, []), (200, "ok"), (204, {})],
    )
    def test_what_is_no_zone_counts_as_unreachable(
        self, command: StubCommand, answer: tuple[int, Any]
    ) -> None:
        command.stub.answer("GET", "/zones/detail", answer)
        assert command("zone", "list") == 3
        assert command.err.endswith("(zone_unreachable)\n")
        assert len(command.stub.asked) == 1

    def test_nothing_that_listens_is_unreachable(self, capsys: pytest.CaptureFixture[str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert run(["zone", "list", "--zone-url", url], Session()) == 3
        assert capsys.readouterr().err == f"zonesched: {url} cannot be reached (zone_unreachable)\n"

    def test_a_zone_that_wants_tls_may_serve_https(self, capsys: pytest.CaptureFixture[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            closing = threading.Thread(target=lambda: server.accept()[0].close())
            closing.start()
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            assert run(["zone", "list", "--zone-url", url], Session()) == 3
            closing.join()
        assert "closed the connection; does it serve https://? (zone_unreachable)" in capsys.readouterr().err

    def test_a_zone_that_does_not_answer_in_time_is_unreachable(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            assert run(["zone", "list", "--zone-url", url, "--timeout", "0.1"], Session()) == 3
        assert "did not answer within 0.1 s" in capsys.readouterr().err

    @pytest.mark.parametrize("url", ["127.0.0.1:8790", "zone.example", "ftp://x"])
    def test_a_url_without_http_is_told_in_plain_words(
        self, capsys: pytest.CaptureFixture[str], url: str
    ) -> None:
        assert run(["zone", "list", "--zone-url", url], Session()) == 3
        said = "cannot be used as a zone's URL: it begins with neither http:// nor https://"
        assert capsys.readouterr().err == f"zonesched: {url} {said} (zone_unreachable)\n"

    def test_https_of_a_zone_that_serves_http_is_told(self, stub: StubZone) -> None:
        url = stub.url.replace("http://", "https://")
        with pytest.raises(ZoneUnavailable, match="serve http://"):
            ZoneConnection(url, "", "").call("GET", "/zones/detail")

    @pytest.mark.parametrize("suffix", ["/", "/v2.1", "/v2.1/"])
    def test_a_url_may_have_the_version_that_lines_for_curl_have(
        self, stub: StubZone, suffix: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stub.answer("GET", "/zones/detail", (200, {"zones": []}))
        assert run(["zone", "list", "--zone-url", stub.url + suffix], Session()) == 0
        assert [asked.path for asked in stub.asked] == ["/zones/detail"]
        assert run(["client-config", "--zone-url", stub.url + suffix], Session()) == 0
        assert f'"{stub.url}/v2.1"' in capsys.readouterr().out

    @pytest.mark.parametrize("url", ["no-scheme", "ftp://x", "http://", "http://[::1", "http://a b/"])
    def test_a_url_that_is_none_is_told(self, capsys: pytest.CaptureFixture[str], url: str) -> None:
        assert run(["zone", "list", "--zone-url", url], Session()) == 3
        assert capsys.readouterr().err.count("\n") == 1

    @pytest.mark.parametrize(
        "arguments",
        [
            ["zone", "lst"],
            ["zone", "show"],
            ["server", "list", "--limit", "x"],
            ["zone", "list", "--no"],
            ["x"],
        ],
    )
    def test_wrong_usage_is_one_line_and_two(self, command: StubCommand, arguments: list[str]) -> None:
        assert command(*arguments) == 2
        assert command.err.startswith("zonesched: ")
        assert command.err.endswith("--help'.\n")
        assert command.err.count("\n") == 1

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--timeout", "inf", "zone", "list"],
            ["--timeout", "1e300", "zone", "list"],
            ["zone", "set", "eu", "--weight-offset", "nan"],
            ["host", "set", "h1", "--ratio", "VCPU=nan"],
        ],
    )
    def test_a_number_that_cannot_be_sent_is_wrong_usage(
        self, command: StubCommand, arguments: list[str]
    ) -> None:
        assert command(*arguments) == 2
        assert command.err.count("\n") == 1
        assert command.stub.asked == []

    @pytest.mark.parametrize(
        "arguments",
        [
            ["user", "set", "ann", "--new-password-file", "FILE"],
            ["zone", "list", "--password-file", "FILE"],
            ["keypair", "create", "laptop", "--public-key", "FILE"],
        ],
    )
    def test_a_file_that_is_no_text_is_named(
        self, command: StubCommand, tmp_path: Path, arguments: list[str]
    ) -> None:
        (tmp_path / "key").write_bytes(b"\xff\xfe")
        file = str(tmp_path / "key")
        assert command(*(file if word == "FILE" else word for word in arguments)) == 2
        assert f"{file} is not a text in UTF-8" in command.err
        assert command.stub.asked == []

    @pytest.mark.parametrize(
        "arguments",
        [
            ["server", "show", "\udcff"],
            ["server", "list", "--name", "\udcff"],
            ["image", "create", "\udcff"],
            ["zone", "list", "--username", "\udcff"],
            ["zone", "list", "--password-stdin"],
            ["user", "create", "ann", "--role", "monitor", "--new-password-stdin"],
        ],
    )
    def test_bytes_that_are_no_text_are_refused_before_a_call(
        self, command: StubCommand, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), encoding="utf-8"))
        assert command(*arguments) == 2
        assert "is not UTF-8" in command.err
        assert "zone's URL" not in command.err
        assert command.stub.asked == []

    def test_an_idempotency_key_that_no_header_can_have_is_refused(self, command: StubCommand) -> None:
        boot = ["zone", "boot", "--flavor", "small", "--name", "web", "--idempotency-key"]
        assert command(*boot, "a\nb") == command(*boot, "€") == 2
        assert "--idempotency-key takes visible ASCII characters alone" in command.err
        assert command(*boot, "") == 2
        assert "--idempotency-key is empty: a repeated call would boot once more" in command.err
        assert command.stub.asked == []

    @pytest.mark.parametrize("wanted", ["", ".."])
    @pytest.mark.parametrize(
        "arguments",
        [
            ["reservation", "show"],
            ["reservation", "cancel"],
            ["reservation", "list", "--marker"],
            ["server", "list", "--reservation"],
            ["server", "delete", "--reservation"],
            ["keypair", "show"],
            ["user", "delete"],
            ["quota", "list"],
        ],
    )
    def test_a_name_that_would_be_another_url_is_not_found(
        self, command: StubCommand, arguments: list[str], wanted: str
    ) -> None:
        expected = 2 if (arguments[:2], wanted) == (["server", "delete"], "") else 4
        assert command(*arguments, wanted) == expected
        assert command.stub.asked == []

    def test_a_name_with_a_slash_is_one_part_of_the_url(self, command: StubCommand) -> None:
        assert command("user", "delete", "../servers/1?x=y") == 4
        assert [asked.path for asked in command.stub.asked] == ["/users/..%2Fservers%2F1%3Fx%3Dy"]

    @pytest.mark.parametrize("option", ["--column", "--sort"])
    @pytest.mark.parametrize(
        "arguments", [["server", "stop", "web"], ["host", "drain", "h1"], ["zone", "drain", "eu"]]
    )
    def test_a_command_with_an_unknown_column_changes_nothing(
        self, command: StubCommand, arguments: list[str], option: str
    ) -> None:
        assert command(*arguments, option, "nope") == 2
        assert "there is no column 'nope': choose from id, " in command.err
        assert command.stub.asked == []

    @pytest.mark.parametrize(
        ("arguments", "field"),
        [
            (["zone", "add", "eu", "https://eu.example", "--child-username", "x"], "id"),
            (["quota", "set", "p1", "--instances", "5"], "instances"),
            (["host", "evacuate", "h1", "--fenced"], "evacuated"),
        ],
    )
    def test_a_command_with_an_unknown_field_changes_nothing(
        self, command: StubCommand, arguments: list[str], field: str
    ) -> None:
        assert command(*arguments, "--column", "nope") == 2
        assert f"there is no column 'nope': choose from {field}, " in command.err
        assert command.stub.asked == []

    def test_without_a_zone_it_says_how_to_name_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["zone", "list"], Session()) == 2
        assert "ZONESCHED_URL" in capsys.readouterr().err

    @pytest.mark.slow
    @pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
    def test_a_closed_stream_ends_no_command(self, stub: StubZone, closed: str) -> None:
        stub.answer("GET", "/zones/detail", (200, {"zones": []}))
        command = (
            f"{Path(sys.executable).parent / 'zonesched'} --zone-url {stub.url} zone list -o csv {closed}"
        )
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.slow
    @pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
    def test_a_watch_that_is_stopped_leaves_the_terminal_as_it_was(self, stub: StubZone, sent: int) -> None:
        stub.answer("GET", "/reservations/r1", boot("BUILD", BUILD=2))
        terminal, other_end = os.openpty()
        program = str(Path(sys.executable).parent / "zonesched")
        with subprocess.Popen(
            [program, "--zone-url", stub.url, "reservation", "show", "r1", "--watch"],
            stdout=other_end,
            stderr=other_end,
            # Whoever started pytest may have it ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as watching:
            os.close(other_end)
            shown = b""
            while shown.count(b"BUILD=2") < 2:
                shown += os.read(terminal, 4096)
            assert b"\x1b[?25l" in shown
            watching.send_signal(sent)
            assert watching.wait(timeout=30) == 130
            shown = b""
            with contextlib.suppress(OSError):
                while more := os.read(terminal, 4096):
                    shown += more
        os.close(terminal)
        assert b"\x1b[?25h" in shown
        assert b"zonesched: stopped" in shown

    @pytest.mark.slow
    def test_a_character_that_the_terminal_lacks_is_replaced(self, stub: StubZone) -> None:
        stub.answer(
            "GET", "/images/detail", (200, {"images": [{"id": "i1", "name": "dëbian…", "properties": {}}]})
        )
        done = subprocess.run(
            [
                str(Path(sys.executable).parent / "zonesched"),
                "--zone-url",
                stub.url,
                "image",
                "list",
                "-o",
                "value",
            ],
            capture_output=True,
            text=True,
            encoding="latin-1",
            env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "dëbian?" in done.stdout

    @pytest.mark.parametrize("is_ignored", [False, True])
    def test_ctrl_c_while_modules_are_imported_prints_no_traceback(
        self, tmp_path: Path, is_ignored: bool
    ) -> None:
        script = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["scripts"]["zonesched"]
        (tmp_path / "click.py").write_text(
            "import os, signal, sys; os.kill(os.getpid(), signal.SIGINT); sys.exit('on it goes')"
        )
        # Whoever runs the tests may ignore it.
        heard = "" if is_ignored else "import signal; signal.signal(2, signal.default_int_handler); "
        program = f"{heard}from {script.replace(':', ' import ')}; main()"
        ignored = "trap '' INT; " if is_ignored else ""
        done = subprocess.run(
            ["sh", "-c", f'{ignored}exec "$@"', "sh", sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        said = (1, "on it goes\n") if is_ignored else (-signal.SIGINT, "")
        assert (done.returncode, done.stderr) == said

    @pytest.mark.slow
    def test_the_installed_command_is_this_one(self) -> None:
        done = subprocess.run(
            [
                str(Path(sys.executable).parent / "zonesched"),
                "zone",
                "list",
                "--zone-url",
                "http://127.0.0.1:1",
            ],
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == "zonesched: http://127.0.0.1:1 cannot be reached (zone_unreachable)\n"


def commands(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))


ALL_COMMANDS = dict(commands(zonesched))
WITHOUT_A_ZONE = ("federation", "replay", "key", "config", "db", "completion")
OF_A_ZONE = [
    path
    for path, found in ALL_COMMANDS.items()
    if path and path[0] not in WITHOUT_A_ZONE and not isinstance(found, click.Group)
]


class TestHelp:
    @pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
    def test_every_level_has_help(self, path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*path, "--help"], Session()) == 0
        assert "Usage: " + " ".join(("zonesched", *path)) in capsys.readouterr().out
        assert ALL_COMMANDS[path].help

    @pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
    def test_every_command_and_every_option_says_what_it_does(self, path: tuple[str, ...]) -> None:
        command = ALL_COMMANDS[path]
        sentence = " ".join((command.help or "").split("\n\n")[0].split())
        assert re.fullmatch(r"[A-Z][^.]*(\.[^ ][^.]*)*\.", sentence), sentence
        for option in command.params:
            text = getattr(option, "help", None)
            assert isinstance(option, click.Argument) or (text and text[0].isupper()), option.name

    @pytest.mark.parametrize("path", OF_A_ZONE, ids=" ".join)
    def test_every_command_that_calls_a_zone_takes_its_options(self, path: tuple[str, ...]) -> None:
        named = {name for option in ALL_COMMANDS[path].params for name in option.opts}
        assert {"--zone-url", "--credentials", "--timeout", "--json"} <= named

    @pytest.mark.parametrize(
        "path", [path for path, c in ALL_COMMANDS.items() if len(path) == 1], ids=" ".join
    )
    def test_the_list_of_commands_cuts_no_sentence(self, path: tuple[str, ...]) -> None:
        sentence = " ".join((ALL_COMMANDS[path].help or "").split("\n\n")[0].split())
        assert len(sentence) <= 80 - len("  availability-zone  "), sentence

    @pytest.mark.parametrize("noun", NOUNS)
    def test_the_list_of_commands_has_the_first_sentence_of_each_help(self, noun: str) -> None:
        assert NOUNS[noun].help == ALL_COMMANDS[(noun,)].get_short_help_str(limit=80)

    def test_the_nouns_are_those_of_the_documents(self) -> None:
        verbs: dict[str, set[str]] = {noun: set() for noun in NOUNS}
        for noun, *rest in ALL_COMMANDS.keys() - {()}:
            verbs[noun] |= set(rest)
        assert verbs == {
            "zone": {"info", "list", "show", "add", "set", "delete", "boot", "drain"},
            "federation": {"apply", "init"},
            "server": {"list", "show", "delete", "actions", "lock", "unlock", "shelve", "start", "stop"}
            | {"pause", "unpause", "suspend", "resume", "reboot", "unshelve", "rebuild", "migrate", "restore"}
            | {"resize", "confirm-resize", "revert-resize", "console", "evacuate"},
            "server-group": {"list", "show", "create", "delete"},
            "reservation": {"list", "show", "why", "cancel"},
            "flavor": {"list", "show", "create", "delete", "set"},
            "image": {"list", "show", "create", "delete"},
            "host": {"list", "show", "set", "delete", "drain", "evacuate"},
            "aggregate": {"list", "show", "create", "set", "delete", "add-host", "remove-host"},
            "service": {"list", "enable", "disable", "force-down", "force-up", "delete"},
            "availability-zone": {"list"},
            "user": {"list", "create", "set", "password", "delete"},
            "limit": {"list", "show", "set"},
            "quota": {"list", "set", "reset"},
            "keypair": {"list", "show", "create", "delete"},
            "audit": set(),
            "replay": set(),
            "key": {"generate"},
            "config": {"check", "sample"},
            "client-config": set(),
            "db": {"upgrade", "backup", "restore", "restored"},
            "completion": {"bash", "zsh", "fish"},
        }


class TestGroups:
    @pytest.mark.parametrize("path", [path for path, c in ALL_COMMANDS.items() if isinstance(c, click.Group)])
    def test_a_group_alone_prints_its_help_and_is_done(
        self, path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run([*path], Session()) == 0
        printed = capsys.readouterr()
        assert printed.out.startswith("Usage: " + " ".join(("zonesched", *path)))
        assert printed.out.count("\n") > 5
        assert printed.err == ""

    @pytest.mark.parametrize(
        ("mistyped", "meant"),
        [(["serverr", "list"], "server"), (["server", "lst"], "list"), (["zone", "bot"], "boot")],
    )
    def test_a_mistyped_command_suggests_the_nearest(
        self, command: StubCommand, mistyped: list[str], meant: str
    ) -> None:
        assert command(*mistyped) == 2
        assert f"Did you mean '{meant}'? Try 'zonesched" in command.err
        assert command("xylophone") == 2
        assert "Did you mean" not in command.err

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_a_shell_gets_its_completion_script(self, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["completion", shell], Session()) == 0
        assert f"_ZONESCHED_COMPLETE={shell}_complete" in capsys.readouterr().out

    def test_the_script_completes_commands_and_options(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("_ZONESCHED_COMPLETE", "bash_complete")
        for words, found in (("zonesched serv", "server"), ("zonesched server list --rese", "--reservation")):
            monkeypatch.setenv("COMP_WORDS", words)
            monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
            assert run([], Session()) == 0
            assert found in capsys.readouterr().out


class TestWhoAsks:
    def ask(self, *arguments: str) -> int:
        return run(["zone", "list", *arguments], Session())

    def sent(self, stub: StubZone) -> str | None:
        return stub.asked[-1].authorization

    @pytest.fixture(autouse=True)
    def empty_list(self, stub: StubZone) -> None:
        stub.answer("GET", "/zones/detail", (200, {"zones": []}))

    def test_without_a_user_no_credentials_are_sent(self, stub: StubZone) -> None:
        assert self.ask("--zone-url", stub.url) == 0
        assert self.sent(stub) is None

    def test_the_environment_names_zone_and_user(
        self, stub: StubZone, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ZONESCHED_URL", stub.url + "/")
        monkeypatch.setenv("ZONESCHED_USERNAME", "ann")
        monkeypatch.setenv("ZONESCHED_PASSWORD", "päss")
        assert self.ask() == 0
        assert self.sent(stub) == basic("ann", "päss")

    def test_a_file_names_all_three_and_options_win(
        self, stub: StubZone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "me"
        write_credentials(file, Credentials(stub.url, "ann", "se%cret"))
        assert self.ask("--credentials", str(file)) == 0
        assert self.sent(stub) == basic("ann", "se%cret")
        monkeypatch.setenv("ZONESCHED_CREDENTIALS", str(file))
        assert self.ask("--username", "bob", "--password", "other") == 0
        assert self.sent(stub) == basic("bob", "other")

    def test_the_password_comes_from_a_file(self, stub: StubZone, tmp_path: Path) -> None:
        (tmp_path / "pw").write_text("secret\n")
        self.ask("--zone-url", stub.url, "--username", "ann", "--password-file", str(tmp_path / "pw"))
        assert self.sent(stub) == basic("ann", "secret")

    def test_the_password_comes_from_standard_input(
        self, stub: StubZone, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("secret\nmore\n"))
        self.ask("--zone-url", stub.url, "--username", "ann", "--password-stdin")
        assert self.sent(stub) == basic("ann", "secret")

    @pytest.mark.parametrize("text", ["", "\n", "\nsecret\n"])
    def test_a_file_or_an_input_without_a_password_is_refused_and_no_other_is_used(
        self,
        command: StubCommand,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        text: str,
    ) -> None:
        (tmp_path / "pw").write_text(text)
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        monkeypatch.setenv("ZONESCHED_PASSWORD", "other")
        assert command("zone", "list", "--password-file", str(tmp_path / "pw")) == 2
        assert f"{tmp_path / 'pw'} has no password in its first line" in command.err
        assert command("zone", "list", "--password-stdin") == 2
        assert "standard input has no password in its first line" in command.err
        assert command.stub.asked == []

    def test_options_stand_before_or_after_the_command(self, stub: StubZone) -> None:
        assert run(["--zone-url", stub.url, "--json", "zone", "list"], Session()) == 0
        assert run(["zone", "list", "--zone-url", stub.url, "--json"], Session()) == 0

    def test_neither_proxies_nor_netrc_of_the_environment_are_used(
        self, stub: StubZone, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        assert self.ask("--zone-url", stub.url) == 0

    @pytest.mark.parametrize("text", ["", "url = x", "[other]\nurl = x", "[zonesched", "\x00"])
    def test_a_file_of_another_form_is_refused(
        self, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "me").write_text(text)
        assert self.ask("--credentials", str(tmp_path / "me")) == 2
        assert str(tmp_path / "me") in capsys.readouterr().err

    def test_a_credentials_file_is_for_its_owner_only_and_reads_back(self, tmp_path: Path) -> None:
        path = tmp_path / "me"
        path.touch(mode=0o644)
        write_credentials(path, Credentials("http://z", "ann", "p"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert read_credentials(path) == Credentials("http://z", "ann", "p")
        assert "hunter2" not in repr(Credentials(password="hunter2"))

    def test_an_error_of_the_file_holds_nothing_of_it(self, tmp_path: Path) -> None:
        (tmp_path / "me").write_text("hunter2\n")
        with pytest.raises(CredentialsError) as caught:
            read_credentials(tmp_path / "me")
        assert "hunter2" not in str(caught.value)


class TestWhatIsSent:
    def test_a_boot_says_what_was_given_and_nothing_else(self, command: StubCommand) -> None:
        command.stub.answer("POST", "/zones/boot", (202, {"reservation_id": "r1"}))
        code = command(
            *("zone", "boot", "--flavor", "small", "--name", "web", "-n", "5"),
            *(
                "--min-count",
                "3",
                "--hint",
                'query=["<", 1]',
                "--hint",
                "colour=red",
                "--filter",
                "JSONFilter",
            ),
            *("--idempotency-key", "k1"),
        )
        sent = command.stub.asked[-1]
        assert (code, command.out) == (0, "r1\n")
        assert sent.headers["Idempotency-Key"] == "k1"
        assert sent.body == {
            "server": {
                "name": "web",
                "flavorRef": "small",
                "num_instances": 5,
                "min_count": 3,
                "filters": ["JSONFilter"],
            },
            "os:scheduler_hints": {"query": ["<", 1], "colour": "red"},
        }

    @pytest.mark.parametrize(
        ("hints", "sent"),
        [
            (["group=123"], {"group": "123"}),
            (["group=true"], {"group": "true"}),
            (['group="db"', "times=3"], {"group": "db", "times": 3}),
            (["ignore_hosts=17"], {"ignore_hosts": "17"}),
            (["same_host=a", "same_host=b", 'same_host=["c", "d"]'], {"same_host": ["a", "b", "c", "d"]}),
            (["force_hosts=1", "times=3", "force_hosts=h"], {"force_hosts": ["1", "h"], "times": 3}),
        ],
    )
    def test_a_hint_is_a_name_where_names_are_taken_and_has_all_its_values(
        self, command: StubCommand, hints: list[str], sent: dict[str, Any]
    ) -> None:
        command.stub.answer("POST", "/zones/boot", (202, {"reservation_id": "r1"}))

        code = command(
            *("zone", "boot", "--flavor", "small", "--name", "web"),
            *(word for hint in hints for word in ("--hint", hint)),
        )

        assert (code, command.stub.asked[-1].body["os:scheduler_hints"]) == (0, sent)

    def test_a_record_is_for_its_owner_only_though_the_file_was_there(
        self, command: StubCommand, tmp_path: Path
    ) -> None:
        record = tmp_path / "decision.json"
        record.write_text("x" * 100)
        record.chmod(0o644)
        found = {"fits": 1, "num_instances": 1, "complete": True, "runs_out": [], "refused_by": []}
        answer = {"dry_run": found, "record": {"hosts": ["h1"]}}
        command.stub.answer("POST", "/zones/boot", (200, answer))
        ask = ("zone", "boot", "--flavor", "f", "--name", "n", "--dry-run", "--record")
        assert command(*ask, str(record)) == 0
        assert json.loads(record.read_text()) == {"hosts": ["h1"]}
        assert stat.S_IMODE(record.stat().st_mode) == 0o600

    def test_a_name_that_several_bear_asks_for_an_id(self, command: StubCommand) -> None:
        twins = [{"id": "z1", "name": "eu"}, {"id": "z2", "name": "eu"}]
        command.stub.answer("GET", "/zones", (200, {"zones": twins}))
        assert command("zone", "delete", "eu") == 1
        assert "z1, z2" in command.err
        assert [asked.method for asked in command.stub.asked] == ["GET"]

    def test_an_id_wins_over_an_equal_name(self, command: StubCommand) -> None:
        command.stub.answer(
            "GET", "/zones", (200, {"zones": [{"id": "a", "name": "b"}, {"id": "b", "name": "c"}]})
        )
        command.stub.answer("DELETE", "/zones/b", (204, None))
        assert command("zone", "delete", "b", "--force") == 0
        assert command.stub.asked[-1].params == {"force": ["true"]}

    def test_an_unknown_name_is_not_found(self, command: StubCommand) -> None:
        command.stub.answer("GET", "/flavors", (200, {"flavors": []}))
        assert command("flavor", "delete", "big") == 4
        assert command.err == "zonesched: there is no flavor 'big' (not_found)\n"

    def test_a_child_zone_is_added_with_its_password_from_a_file(
        self, command: StubCommand, tmp_path: Path
    ) -> None:
        (tmp_path / "pw").write_text("secret")
        command.stub.answer("POST", "/zones", (201, {"zone": {"id": "z1", "name": "eu"}}))
        arguments = ["--child-username", "root", "--child-password-file", str(tmp_path / "pw")]
        assert command("zone", "add", "eu", "https://eu.example", *arguments, "--weight-offset", "-3") == 0
        assert command.stub.asked[-1].body["zone"] == {
            "name": "eu",
            "api_url": "https://eu.example",
            "username": "root",
            "password": "secret",
            "weight_offset": -3.0,
            "weight_scale": 1.0,
        }
        assert "secret" not in command.out

    def test_a_change_names_only_what_changes(self, command: StubCommand) -> None:
        zone = {"id": "z1", "name": "eu"}
        command.stub.answer("GET", "/zones", (200, {"zones": [zone]}))
        command.stub.answer("PUT", "/zones/z1", (200, {"zone": zone}))
        assert command("zone", "set", "eu", "--weight-scale", "2") == 0
        assert command.stub.asked[-1].body == {"zone": {"weight_scale": 2.0}}
        assert command("zone", "set", "eu") == 2

    def test_extra_specs_are_set_and_removed(self, command: StubCommand) -> None:
        command.stub.answer("GET", "/flavors", (200, {"flavors": [FLAVOR]}))
        path = "/flavors/f1/os-extra_specs"
        command.stub.answer("POST", path, (200, {}))
        command.stub.answer("DELETE", path + "/trait%3AB", (200, None))
        command.stub.answer("GET", path, (200, {"extra_specs": {"trait:A": "required"}}))
        assert command("flavor", "set", "small", "--extra", "trait:A=required", "--unset", "trait:B") == 0
        sent = [(asked.method, asked.body) for asked in command.stub.asked if asked.path.startswith(path)]
        assert sent == [("POST", {"extra_specs": {"trait:A": "required"}}), ("DELETE", None), ("GET", None)]

    def test_an_aggregate_is_named_by_its_name_or_its_number(self, command: StubCommand) -> None:
        aggregate = {"id": 7, "name": "fast", "metadata": {"availability_zone": "e"}, "hosts": []}
        command.stub.answer("GET", "/os-aggregates", (200, {"aggregates": [aggregate]}))
        command.stub.answer("PUT", "/os-aggregates/7", (200, {"aggregate": aggregate}))
        command.stub.answer("POST", "/os-aggregates/7/action", (200, {"aggregate": aggregate}))
        assert command("aggregate", "set", "fast", "--zone", "e", "--property", "a=b", "--unset", "c") == 0
        assert command("aggregate", "add-host", "7", "h1", "h2") == 0
        sent = [(asked.method, asked.body) for asked in command.stub.asked if asked.body]
        assert sent == [
            ("PUT", {"aggregate": {"availability_zone": "e"}}),
            ("POST", {"set_metadata": {"metadata": {"a": "b", "c": None}}}),
            ("POST", {"add_host": {"host": "h1"}}),
            ("POST", {"add_host": {"host": "h2"}}),
        ]
        assert command("aggregate", "set", "fast") == 2

    @pytest.mark.parametrize("action", ["add-host", "remove-host"])
    def test_the_other_hosts_go_on_where_one_is_refused(self, command: StubCommand, action: str) -> None:
        aggregate = {"id": 7, "name": "fast", "metadata": {}, "hosts": []}
        command.stub.answer("GET", "/os-aggregates", (200, {"aggregates": [aggregate]}))
        fault = {"code": 404, "message": "There is no such host.", "error_code": "host_not_found"}
        command.stub.answer(
            "POST",
            "/os-aggregates/7/action",
            (200, {"aggregate": {**aggregate, "hosts": ["h1"]}}),
            (404, {"itemNotFound": fault}),
            (200, {"aggregate": {**aggregate, "hosts": ["h1", "h3"]}}),
        )

        assert command("aggregate", action, "fast", "h1", "missing", "h3") == 1

        assert [next(iter(asked.body.values()))["host"] for asked in command.stub.asked[-3:]] == [
            "h1",
            "missing",
            "h3",
        ]
        assert command.err == "zonesched: missing: There is no such host. (host_not_found)\n"
        assert "h1, h3" in command.out

    def test_an_aggregate_whose_metadata_is_refused_is_not_there(self, command: StubCommand) -> None:
        command.stub.answer("POST", "/os-aggregates", (200, {"aggregate": {"id": 7}}))
        fault = {"message": "no colon", "error_code": "invalid_value", "field": "set_metadata.metadata"}
        command.stub.answer("POST", "/os-aggregates/7/action", (400, {"badRequest": fault}))
        command.stub.answer("DELETE", "/os-aggregates/7", (200, None))
        assert command("aggregate", "create", "fast", "--property", "availability_zone=a:b") == 1
        assert "no colon (invalid_value)" in command.err
        assert (command.stub.asked[-1].method, command.stub.asked[-1].path) == ("DELETE", "/os-aggregates/7")

    def test_limits_are_set_of_one_project_or_parent(self, command: StubCommand) -> None:
        absolute = {"project_instances": 5, "project_instances_used": 2, "max_instances_per_request": 9}
        rate = {"name": "project_boots_per_minute", "limit": [{"value": 6, "remaining": 2, "unit": "MINUTE"}]}
        limits = {"absolute": absolute, "rate": [rate], "overrides": {"project_instances": 5}}
        for path in ("/limits/projects/a%2Fb", "/limits/parents/up"):
            command.stub.answer("PUT", path, (200, {"limits": limits}))
        assert command("limit", "set", "project_instances=5", "--project", "a/b") == 0
        assert command.stub.asked[-1].body == {"limits": {"project_instances": 5}}
        lines = [line.split() for line in command.out.splitlines()]
        assert lines[1:] == [
            ["project_instances", "5", "2", "yes"],
            ["max_instances_per_request", "9", "no"],
            ["project_boots_per_minute", "6", "4", "no"],
        ]
        assert command("limit", "set", "parent_instances=default", "--parent", "up") == 0
        assert command.stub.asked[-1].body == {"limits": {"parent_instances": None}}
        for wrong in (
            ["project_instances=x", "--project", "p"],
            ["project_instances=1_0", "--project", "p"],
            ["project_instances=5"],
            ["--project", "p"],
        ):
            assert command("limit", "set", *wrong) == 2

    def test_a_service_is_named_by_its_host(self, command: StubCommand) -> None:
        row = {"host": "one", "binary": "nova-compute"}
        command.stub.answer("GET", "/os-services", (200, {"services": [{"id": "h1", **row}]}))
        command.stub.answer("PUT", "/os-services/h1", (200, {"service": row}))
        assert command("service", "disable", "one", "--reason", "disk") == 0
        assert command.stub.asked[-2].params == {"host": ["one"], "binary": ["nova-compute"]}
        assert command.stub.asked[-1].body == {"status": "disabled", "disabled_reason": "disk"}
        assert command("service", "force-up", "one") == 0
        assert command.stub.asked[-2].params == {"host": ["one"]}
        assert command.stub.asked[-1].body == {"forced_down": False}
        command.stub.answer("GET", "/os-services", (200, {"services": []}))
        assert command("service", "enable", "two") == 4

    def test_hosts_and_agents_are_removed_by_name(self, command: StubCommand) -> None:
        command.stub.answer(
            "GET", "/os-hypervisors", (200, {"hypervisors": [{"id": "h1", "hypervisor_hostname": "one"}]})
        )
        command.stub.answer("GET", "/os-services", (200, {"services": [{"id": "s1"}]}))
        for id in ("h1", "s1"):
            command.stub.answer("DELETE", f"/os-services/{id}", (204, None))
        assert command("host", "delete", "one") == 0
        # Of 100,000 hosts the zone tells only those of such a name.
        assert command.stub.asked[-2].params == {"hypervisor_hostname_pattern": ["one"], "limit": ["1000"]}
        assert (command.stub.asked[-1].method, command.stub.asked[-1].path) == ("DELETE", "/os-services/h1")
        assert command("service", "delete", "agent", "--binary", "zonesched-compute") == 0
        assert command.stub.asked[-2].params == {"host": ["agent"], "binary": ["zonesched-compute"]}
        assert (command.stub.asked[-1].method, command.stub.asked[-1].path) == ("DELETE", "/os-services/s1")
        assert (command.out, command.err) == ("", "")

    @pytest.mark.parametrize(("flags", "fenced"), [([], False), (["--fenced"], True)])
    def test_a_host_is_evacuated_on_the_operators_word(
        self, command: StubCommand, flags: list[str], fenced: bool
    ) -> None:
        named = {"hypervisors": [{"id": "h1", "hypervisor_hostname": "one"}]}
        command.stub.answer("GET", "/os-hypervisors", (200, named))
        command.stub.answer("POST", "/os-services/h1/action", (202, {"evacuated": 3, "moving": 0}))

        assert command("host", "evacuate", "one", *flags, "-o", "json") == 0

        assert command.stub.asked[-1].body == {"evacuate": {"fenced": fenced}}
        assert json.loads(command.out) == {"evacuated": 3, "moving": 0}

    def test_a_name_of_a_host_and_an_agent_asks_for_the_binary(self, command: StubCommand) -> None:
        twins = [{"id": "h1"}, {"id": "s1"}]
        command.stub.answer("GET", "/os-services", (200, {"services": twins}))
        assert command("service", "force-down", "one") == 1
        assert "--binary" in command.err
        assert [asked.method for asked in command.stub.asked] == ["GET"]

    def test_what_is_set_of_a_host_is_sent_by_class(self, command: StubCommand) -> None:
        host = {"id": "h1", "hypervisor_hostname": "one", "resources": {}}
        command.stub.answer("GET", "/os-hypervisors", (200, {"hypervisors": [host]}))
        command.stub.answer("PUT", "/os-hypervisors/h1", (200, {"hypervisor": host}))
        options = ["--ratio", "VCPU=4", "--reserved", "VCPU=1", "--unset-reserved", "MEMORY_MB"]
        assert command("host", "set", "one", *options) == 0
        assert command.stub.asked[-1].body == {
            "hypervisor": {
                "resources": {
                    "VCPU": {"allocation_ratio": 4.0, "reserved": 1},
                    "MEMORY_MB": {"reserved": None},
                }
            }
        }
        assert command("host", "set", "one") == 2
        assert command("host", "set", "one", "--reserved", "VCPU=1.5") == 2

    @pytest.mark.parametrize("option", [["--extra", "no-sign"], ["--extra", "=v"]])
    def test_a_pair_that_is_none_is_usage(self, command: StubCommand, option: list[str]) -> None:
        assert command("flavor", "create", "f", "--vcpus", "1", "--ram", "1", *option) == 2

    def test_a_list_is_asked_for_as_the_options_say(self, command: StubCommand) -> None:
        command.stub.answer("GET", "/servers/detail", (200, {"servers": []}))
        assert command("server", "list", "--status", "ERROR", "--reservation", "r1", "--all-tenants") == 0
        assert command.stub.asked[-1].params == {
            "status": ["ERROR"],
            "reservation_id": ["r1"],
            "limit": ["1000"],
            "all_tenants": ["true"],
        }

    @pytest.mark.parametrize(
        ("noun", "path", "wrap"),
        [
            ("flavor", "/flavors/detail", lambda name: {**FLAVOR, "id": name, "name": name}),
            ("image", "/images/detail", lambda name: {**IMAGE, "id": name, "name": name}),
            ("keypair", "/os-keypairs", lambda name: {"keypair": {"name": name, "fingerprint": "aa"}}),
        ],
    )
    def test_a_list_has_all_its_pages(
        self, command: StubCommand, noun: str, path: str, wrap: Callable[[str], dict[str, Any]]
    ) -> None:
        link = {"rel": "next", "href": f"{command.stub.url}/v2.1{path}?limit=1000&marker=one"}
        first = {f"{noun}s": [wrap("one")], f"{noun}s_links": [link]}
        command.stub.answer("GET", path, (200, first), (200, {f"{noun}s": [wrap("two")]}))
        assert command(noun, "list", "-c", "name", "-o", "value") == 0
        assert command.lines == ["one", "two"]
        assert command.stub.asked[-1].params["marker"] == ["one"]

    def test_a_name_on_a_later_page_is_found(self, command: StubCommand) -> None:
        groups = [
            {"id": f"g{n}", "name": f"n{n}", "policy": "affinity", "members": [], "rules": {}}
            | {"project_id": "p", "user_id": "u"}
            for n in range(1001)
        ]
        pages = [(200, {"server_groups": groups[:1000]}), (200, {"server_groups": groups[1000:]})]
        command.stub.answer("GET", "/os-server-groups", *pages)
        assert command("server-group", "show", "n1000", "-c", "id", "-o", "value") == 0
        assert command.lines == ["g1000"]
        assert command.stub.asked[-1].params == {"offset": ["1000"]}

    def test_a_new_user_is_saved_and_its_secret_not_printed(
        self, command: StubCommand, tmp_path: Path
    ) -> None:
        made = {"id": "u1", "name": "agent", "role": "compute", "project_id": "", "secret": "s3cret"}
        command.stub.answer("POST", "/users", (201, {"user": made}))
        path = tmp_path / "agent.credentials"
        assert command("user", "create", "agent", "--role", "compute", "--save", str(path)) == 0
        assert read_credentials(path) == Credentials(command.stub.url, "agent", "s3cret")
        assert "s3cret" not in command.out
        assert command("user", "create", "agent", "--role", "compute") == 0
        assert "s3cret" in command.out

    def test_a_new_secret_is_told_once_or_saved(self, command: StubCommand, tmp_path: Path) -> None:
        changed = {"id": "u1", "name": "root", "role": "parent", "project_id": "", "secret": "s3cret"}
        command.stub.answer("PUT", "/users/root", (200, {"user": changed}))
        assert command("user", "set", "root", "--new-secret") == 0
        assert "s3cret" in command.out
        assert command.stub.asked[-1].body == {"user": {"new_secret": True}}
        path = tmp_path / "root.credentials"
        assert command("user", "set", "root", "--new-secret", "--save", str(path)) == 0
        assert "s3cret" not in command.out
        assert read_credentials(path) == Credentials(command.stub.url, "root", "s3cret")

    def test_a_file_of_something_else_is_kept_and_no_secret_made(
        self, command: StubCommand, tmp_path: Path
    ) -> None:
        path = tmp_path / "file"
        for text in ("[DEFAULT]\n", "[zonesched]\nurl = http://z\nusername = bob\npassword = p\n"):
            path.write_text(text)
            assert command("user", "create", "agent", "--role", "compute", "--save", str(path)) == 2
            assert command("user", "set", "agent", "--new-secret", "--save", str(path)) == 2
            assert "is kept" in command.err
            assert path.read_text() == text
        assert command.stub.asked == []

    @pytest.mark.parametrize("place", ["missing/agent.credentials", "."])
    def test_no_secret_is_made_that_could_not_be_saved(
        self, command: StubCommand, tmp_path: Path, place: str
    ) -> None:
        path = str(tmp_path / place)
        assert command("user", "create", "agent", "--role", "compute", "--save", path) == 2
        assert command("user", "set", "agent", "--new-secret", "--save", path) == 2
        assert path in command.err
        assert command.stub.asked == []
        assert list(tmp_path.iterdir()) == []

    def test_a_new_password_comes_from_a_file(self, command: StubCommand, tmp_path: Path) -> None:
        (tmp_path / "pw").write_text("better horse\n")
        changed = {"id": "u1", "name": "ann", "role": "member", "project_id": "p"}
        command.stub.answer("PUT", "/users/ann", (200, {"user": changed}))
        given = ("--new-password-file", str(tmp_path / "pw"))
        assert command("user", "set", "ann", *given) == 0
        assert command.stub.asked[-1].body == {"user": {"password": "better horse"}}
        assert "better horse" not in command.out
        asked = len(command.stub.asked)
        assert command("user", "set", "ann") == 2
        assert command("user", "set", "ann", "--new-secret", *given) == 2
        assert len(command.stub.asked) == asked


class TestWhatIsPrinted:
    def test_json_is_the_zones_answer(self, command: StubCommand) -> None:
        answer = {"zones": [{"id": "z1", "name": "eu"}]}
        command.stub.answer("GET", "/zones/detail", (200, answer))
        assert command("zone", "list", "--json") == 0
        assert json.loads(command.out) == answer

    def test_a_table_shows_every_row_uncut(self, command: StubCommand) -> None:
        server = {
            "id": "s" * 36,
            "name": "n" * 120,
            "status": "ERROR",
            "reservation_id": "r" * 36,
            "created": "c",
        }
        server["fault"] = {"error_code": "no_valid_host"}  # type: ignore[assignment]
        links = [{"rel": "next", "href": f"http://zone/v2.1/servers/detail?limit=1&marker={server['id']}"}]
        command.stub.answer("GET", "/servers/detail", (200, {"servers": [server], "servers_links": links}))
        assert command("server", "list") == 0
        assert "n" * 120 in command.out
        assert "no_valid_host" in command.out
        assert command.err == f"more: --marker {'s' * 36}\n"

    def test_brackets_in_names_are_text(self, command: StubCommand) -> None:
        command.stub.answer("GET", "/images/detail", (200, {"images": [{**IMAGE, "name": "[bold]x[/nope]"}]}))
        assert command("image", "list") == 0
        assert "[bold]x[/nope]" in command.out

    def test_hosts_show_used_and_capacity(self, command: StubCommand) -> None:
        host = {
            "id": "h1",
            "hypervisor_hostname": "host-1",
            "availability_zone": "",
            "state": "up",
            "status": "enabled",
            "running_vms": 3,
            "resources": {"VCPU": VCPU},
        }
        hosts = [{**host, "id": "h2", "hypervisor_hostname": "host-9"}, host]
        command.stub.answer("GET", "/os-hypervisors", (200, {"hypervisors": hosts}))
        command.stub.answer("GET", "/os-hypervisors/detail", (200, {"hypervisors": hosts}))
        command.stub.answer("GET", "/os-hypervisors/h1", (200, {"hypervisor": host}))
        assert command("host", "list") == 0
        assert "3 / 16" in command.out
        assert command.out.index("host-1") < command.out.index("host-9")
        assert command("host", "show", "host-1") == 0
        assert "3 / 16 (8 - 4 reserved, ratio 4; set: allocation_ratio; its agent counts -2)" in command.out
        assert command("host", "show", "host-2") == 4

    def test_an_empty_list_prints_no_table(self, command: StubCommand) -> None:
        command.stub.answer("GET", "/zones/detail", (200, {"zones": []}))
        assert command("zone", "list") == 0
        assert (command.out, command.err) == ("", "none\n")

    def test_info_shows_the_ranges_below(self, command: StubCommand) -> None:
        zone = {
            "name": "root",
            "services": {"compute": {"VCPU": "4.0,64.0"}},
            "weighers": {"RAMWeigher": "0.0,512.0"},
        }
        command.stub.answer("GET", "/zones/info", (200, {"zone": zone}))
        assert command("zone", "info") == 0
        assert re.search(r"VCPU +4\.0 +64\.0", command.out)
        assert re.search(r"RAMWeigher +0\.0 +512\.0", command.out)


def boot(state: str, **counts: int) -> tuple[int, Any]:
    members = [{"uuid": "u", "status": status} for status, count in counts.items() for _ in range(count)]
    reasons = [{"code": "no_valid_host", "count": counts.get("ERROR"), "refused_by": ["RamFilter"]}]
    return 200, {
        "reservation": {
            "id": "r1",
            "state": state,
            "num_instances": len(members),
            "min_count": 1,
            "counts": counts,
            "reasons": reasons if "ERROR" in counts else [],
            "waiting_for": [{"code": "build", "count": counts["BUILD"]}] if "BUILD" in counts else [],
            "instances": members,
            "created": "2026-01-01T00:00:00Z",
        }
    }


class TestReservation:
    def test_it_is_watched_until_it_ends(self, command: StubCommand) -> None:
        command.stub.answer(
            *("GET", "/reservations/r1"),
            boot("BUILD", BUILD=3),
            boot("BUILD", BUILD=1, ACTIVE=2),
            boot("ACTIVE", ACTIVE=3),
        )
        assert command("reservation", "show", "r1", "--watch") == 0
        assert "ACTIVE=3" in command.out
        assert len(command.pauses) == 2

    def test_the_reasons_of_one_that_is_watched_have_lines_of_their_own(self, command: StubCommand) -> None:
        status, answer = boot("ERROR", ERROR=2)
        filters = [f"ARatherLongName{number}Filter" for number in range(9)]
        answer["reservation"]["reasons"][0]["refused_by"] = filters
        command.stub.answer("GET", "/reservations/r1", (status, answer))
        assert command("reservation", "show", "r1", "--watch") == 1
        assert "reason         instances  refused by" in command.lines
        assert f"no_valid_host          2  {', '.join(filters)}" in command.lines

    def test_one_that_is_watched_says_in_one_line_what_it_waits_for(self) -> None:
        select_at = {"code": "next_select", "count": 2, "at": "2026-01-01T00:00:00Z"}
        confirm = {"code": "confirm_answer", "count": 8, "child_zone": "leaf"}
        assert waiting_line([select_at, confirm, {"code": "build", "count": 2}]) == (
            "waiting: 2 for the next select, as a zone did not answer, "
            "8 for the child zone to answer the confirm (leaf), 2 for the build"
        )
        assert waiting_line([]) == ""

    @pytest.mark.parametrize(
        ("state", "active", "min_count", "code"),
        [
            ("ERROR", 0, 1, 1),
            ("PARTIAL", 1, 2, 1),
            ("PARTIAL", 1, 1, 0),
            ("PARTIAL", 2, 2, 0),
            ("DELETED", 0, 3, 0),
            ("ACTIVE", 3, 3, 0),
        ],
    )
    def test_fewer_active_instances_than_min_count_are_the_exit_code_one(
        self, command: StubCommand, state: str, active: int, min_count: int, code: int
    ) -> None:
        status, answer = boot(state, ACTIVE=active, ERROR=2)
        answer["reservation"]["min_count"] = min_count
        command.stub.answer("GET", "/reservations/r1", (status, answer))
        assert command("reservation", "show", "r1", "--watch") == code
        assert "RamFilter" in command.out

    @pytest.mark.parametrize("form", [[], ["--json"]])
    def test_a_boot_that_can_no_longer_be_watched_is_named(
        self, command: StubCommand, form: list[str]
    ) -> None:
        command.stub.answer("POST", "/zones/boot", (202, {"reservation_id": "r1"}))
        command.stub.answer("GET", "/reservations/r1", boot("BUILD", BUILD=1), fault(503, "overloaded"))
        assert command("zone", "boot", "--flavor", "f", "--name", "n", "--watch", *form) == 3
        followed = "the boot r1 goes on: zonesched reservation show r1 --watch follows it"
        assert command.err.splitlines() == [
            "zonesched: waiting for the zone: It cannot be done.",
            f"zonesched: {followed}",
            "zonesched: It cannot be done. (overloaded)",
        ]

    def test_a_boot_that_may_no_longer_be_watched_is_not_waited_for(self, command: StubCommand) -> None:
        command.stub.answer("GET", "/reservations/r1", boot("BUILD", BUILD=1), fault(403, "forbidden"))
        assert command("reservation", "show", "r1", "--watch") == 1
        assert "waiting for the zone" not in command.err

    def test_watching_prints_json_at_the_end(self, command: StubCommand) -> None:
        command.stub.answer("GET", "/reservations/r1", boot("BUILD", BUILD=1), boot("ACTIVE", ACTIVE=1))
        assert command("reservation", "show", "r1", "--watch", "--json") == 0
        assert json.loads(command.out)["reservation"]["state"] == "ACTIVE"

    def test_it_is_shown_once_with_its_instances(self, command: StubCommand) -> None:
        command.stub.answer("GET", "/reservations/r1", boot("BUILD", BUILD=2))
        assert command("reservation", "show", "r1", "--instances") == 0
        assert command.out.count("BUILD") == 4


class TestAudit:
    def test_no_inconsistency_is_zero(self, command: StubCommand) -> None:
        command.stub.answer("GET", "/audit", (200, {"inconsistencies": []}))
        assert (command("audit"), command.out) == (0, "no inconsistencies\n")

    @pytest.mark.parametrize("form", [[], ["--json"]])
    def test_an_inconsistency_is_one(self, command: StubCommand, form: list[str]) -> None:
        found = {"kind": "claim_without_instance", "subject": "u1", "detail": "host h1"}
        command.stub.answer("GET", "/audit", (200, {"inconsistencies": [found]}))
        assert command("audit", *form) == 1
        assert "claim_without_instance" in command.out

    @pytest.mark.parametrize(("repaired", "code"), [(True, 0), (False, 1)])
    def test_a_repair_fails_only_for_what_is_left(
        self, command: StubCommand, repaired: bool, code: int
    ) -> None:
        found = {
            "kind": "hold_overdue",
            "subject": "u1",
            "detail": "held",
            "repaired": repaired,
            "action": "ended",
        }
        command.stub.answer("POST", "/audit", (200, {"inconsistencies": [found]}))
        assert command("audit", "--repair") == code
        assert "hold_overdue" in command.out
        assert command.stub.asked[-1].body == {"repair": {"dry_run": False}}

    def test_a_dry_run_fails_for_what_would_be_repaired(self, command: StubCommand) -> None:
        found = {
            "kind": "hold_overdue",
            "subject": "u1",
            "detail": "held",
            "repaired": True,
            "action": "ended",
        }
        command.stub.answer("POST", "/audit", (200, {"inconsistencies": [found]}))
        assert command("audit", "--repair", "--dry-run") == 1
        assert command.stub.asked[-1].body == {"repair": {"dry_run": True}}

    @pytest.mark.parametrize(
        ("inconsistencies", "complete", "code", "said"),
        [
            ([], True, 0, "in eu: no inconsistencies"),
            ([], False, 1, "in eu: not all zones answered"),
            ([{"kind": "two_places", "id": "u1"}], True, 1, "two_places"),
        ],
    )
    def test_a_tree_is_right_if_all_of_it_has_answered_and_is(
        self, command: StubCommand, inconsistencies: list[object], complete: bool, code: int, said: str
    ) -> None:
        child = {"id": "c1", "name": "eu", "inconsistencies": inconsistencies, "complete": complete}
        command.stub.answer("GET", "/audit", (200, {"inconsistencies": [], "children": [child]}))
        assert command("audit", "--tree") == code
        assert said in command.out

    @pytest.mark.parametrize(
        ("arguments", "timeout_s"),
        [
            (["audit"], 3600.0),
            (["audit", "--repair"], 3600.0),
            (["audit", "--timeout", "5"], 5.0),
            (["zone", "list"], 60.0),
        ],
    )
    def test_the_audit_of_a_large_zone_has_an_hour(
        self, stub: StubZone, arguments: list[str], timeout_s: float
    ) -> None:
        limits: list[float] = []

        def connect_with(who: Credentials, limit_s: float) -> ZoneConnection:
            limits.append(limit_s)
            return connect(who, limit_s)

        run([*arguments, "--zone-url", stub.url], Session(connect=connect_with))
        assert limits == [timeout_s]

    @pytest.mark.parametrize("options", [["--dry-run"], ["--repair", "--tree"]])
    def test_options_that_do_not_go_together(self, command: StubCommand, options: list[str]) -> None:
        assert command("audit", *options) == 2


class TestOffline:
    def test_a_key_is_64_hex_digits_and_never_the_same(self, capsys: pytest.CaptureFixture[str]) -> None:
        keys = []
        for _ in range(2):
            assert run(["key", "generate"], Session()) == 0
            keys.append(capsys.readouterr().out.strip())
        assert all(re.fullmatch("[0-9a-f]{64}", key) for key in keys)
        assert keys[0] != keys[1]

    def test_a_good_configuration_is_printed_without_its_secrets(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        key = "ab" * 32
        (tmp_path / "z.conf").write_text(f"[DEFAULT]\nbuild_plan_encryption_key = {key}\nzone_name = eu\n")
        assert run(["config", "check", "--config-file", str(tmp_path / "z.conf"), "--json"], Session()) == 0
        out = capsys.readouterr().out
        options = json.loads(out)["options"]
        assert (options["zone_name"], options["build_plan_encryption_key"]) == ("eu", "***")
        assert (options["secret_encryption_key"], options["servicegroup_driver"]) == ([], "db")
        assert key not in out

    @pytest.mark.parametrize("as_json", [["--json"], []])
    def test_a_checked_configuration_shows_no_password_of_a_url(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: list[str]
    ) -> None:
        lines = (
            "[DEFAULT]",
            "database_url = postgresql+psycopg://zone:sekret@db.example.org/zone?password=sekret",
            "transport_url = amqps://zone:sekret@10.0.0.6//",
            "servicegroup_driver = rediss://:sekret@10.0.0.6",
        )
        (tmp_path / "z.conf").write_text("\n".join(lines))
        (tmp_path / "z.conf").chmod(0o604)
        assert run(["config", "check", "--config-file", str(tmp_path / "z.conf"), *as_json], Session()) == 0
        printed = capsys.readouterr()
        assert "zone:***@db.example.org" in printed.out
        assert "sekret" not in printed.out + printed.err
        told = printed.out if as_json else printed.err
        assert "sets database_url, servicegroup_driver, transport_url, and every user" in told

    @pytest.mark.parametrize(
        "line",
        [
            "enabled_filters = ComputeFilter,NoSuchFilter",
            "weight_classes = NoSuchWeigher",
            "scheduler_driver = acme.NoSuchScheduler",
            "secret_encryption_key = abc",
            "tls_certificate_file = /dev/null/zone.pem",
            "child_ca_file = /dev/null/ca.pem",
            "database_url = nonsense",
            "database_url = sqlite://",
            "database_url = sqlite:////dev/null/zone.sqlite",
            "database_url = sqlite:///{folder}",
            "database_url = sqlite:///{folder}/shared.sqlite",
            "state_path = /dev/null",
            "state_path = /dev/null/state",
            "state_path = {folder}/shared",
            "audit_log = {folder}",
            "audit_log = {folder}/logs/audit.log",
        ],
    )
    def test_what_a_zone_could_not_start_with_is_found(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
    ) -> None:
        (tmp_path / "shared").mkdir(mode=0o755)
        (tmp_path / "shared.sqlite").touch(mode=0o644)
        given = [f"state_path = {tmp_path / 'state'}", line.format(folder=tmp_path)]
        (tmp_path / "z.conf").write_text("\n".join(("[DEFAULT]", *given)))
        assert run(["config", "check", "--config-file", str(tmp_path / "z.conf")], Session()) == 1
        error = capsys.readouterr().err
        assert line.partition(" ")[0] in error
        assert error.count("\n") == 1
        assert not (tmp_path / "state").exists()

    @pytest.mark.parametrize("host", ["192.0.2.1", "no-such-name.invalid", "2001:db8::1", "a..b"])
    def test_an_address_that_is_not_this_machines_is_found(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str
    ) -> None:
        (tmp_path / "z.conf").write_text(
            f"[DEFAULT]\nstate_path = {tmp_path / 'state'}\nbind_host = {host}\n"
        )
        assert run(["config", "check", "--config-file", str(tmp_path / "z.conf")], Session()) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"zonesched: Cannot listen on {host} port 8790: ")
        assert error.count("\n") == 1

    def test_a_configuration_of_a_zone_that_runs_is_good(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        # given a port that is in use, and a new zone whose audit log is in its own folder
        state = tmp_path / "of/zone/state"
        with socket.create_server(("127.0.0.1", 0)) as server:
            lines = (f"bind_port = {server.getsockname()[1]}", f"state_path = {state}")
            (tmp_path / "z.conf").write_text(
                "\n".join(("[DEFAULT]", *lines, "audit_log = $state_path/audit.log"))
            )
            assert run(["config", "check", "--config-file", str(tmp_path / "z.conf")], Session()) == 0
        # then nothing is written
        assert list(tmp_path.iterdir()) == [tmp_path / "z.conf"]

    @pytest.mark.parametrize(
        "url", ["mysql://zone:sekret@db.example/zone", "mariadb+pymysql://db.example/zone"]
    )
    def test_another_database_is_refused_with_those_that_a_zone_works_with(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str
    ) -> None:
        (tmp_path / "z.conf").write_text(
            f"[DEFAULT]\nstate_path = {tmp_path / 'state'}\ndatabase_url = {url}\n"
        )
        assert run(["config", "check", "--config-file", str(tmp_path / "z.conf")], Session()) == 1
        error = capsys.readouterr().err
        assert "postgresql+psycopg://" in error
        assert "sqlite:////" in error
        assert "sekret" not in error

    def test_postgresql_without_its_driver_is_refused_with_the_extra_that_has_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "psycopg", None)
        lines = (
            "[DEFAULT]",
            f"state_path = {tmp_path / 'state'}",
            "database_url = postgresql+psycopg:///zone",
        )
        (tmp_path / "z.conf").write_text("\n".join(lines))
        assert run(["config", "check", "--config-file", str(tmp_path / "z.conf")], Session()) == 1
        needed = "Option database_url needs the package psycopg: install zonesched with the extra postgres."
        assert needed in capsys.readouterr().err

    @pytest.mark.parametrize("command", ["upgrade", "restored"])
    @pytest.mark.parametrize(
        "url",
        [
            "sqlite:////dev",
            "sqlite:///FOLDER/notes.txt",
            "postgresql+psycopg://zone:sekret@127.0.0.1:1/zone",
        ],
    )
    def test_a_database_that_cannot_be_used_is_one_line_and_one(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, url: str
    ) -> None:
        (tmp_path / "notes.txt").write_text("nothing of a database\n")
        (tmp_path / "notes.txt").chmod(0o600)
        file = tmp_path / "z.conf"
        file.write_text(f"[DEFAULT]\ndatabase_url = {url.replace('FOLDER', str(tmp_path))}\n")
        assert run(["db", command, "--config-file", str(file)], Session()) == 1
        error = capsys.readouterr().err
        assert error.startswith("zonesched: Option database_url: the database cannot be used: ")
        assert error.count("\n") == 1
        assert "sekret" not in error

    def test_a_file_that_cannot_be_written_is_named_in_plain_words(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "missing" / "zone.conf"
        assert run(["config", "sample", "zone", "--save", str(file)], Session()) == 1
        assert capsys.readouterr().err == f"zonesched: {file}: No such file or directory\n"

    def test_a_wrong_configuration_is_one_line_and_one(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "z.conf").write_text("[DEFAULT]\napi_threads = 0\n")
        assert run(["config", "check", "--config-file", str(tmp_path / "z.conf")], Session()) == 1
        assert capsys.readouterr().err == (
            "zonesched: Option api_threads: '0' is not accepted. Accepted: a whole number from 1 to 512."
            " (config_invalid)\n"
        )

    def test_a_database_is_brought_up_to_date_once(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "z.conf").write_text(f"[DEFAULT]\nstate_path = {tmp_path}/state\n")
        arguments = ["db", "upgrade", "--config-file", str(tmp_path / "z.conf")]
        assert (run(arguments, Session()), run(arguments, Session())) == (0, 0)
        assert capsys.readouterr().out == "the schema was empty; upgraded\nthe schema was current\n"


def test_why_of_a_boot_that_went_well_says_where_it_went(command: StubCommand) -> None:
    servers = [{"id": "a", "child_zone": "eu"}, {"id": "b", "OS-EXT-SRV-ATTR:host": "h1"}, {"id": "c"}]
    command.stub.answer("GET", "/servers/detail", (200, {"servers": servers}))
    command.stub.answer("GET", "/reservations/r1", boot("ACTIVE", ACTIVE=3))
    assert command("reservation", "why", "r1") == 0
    assert (
        command.out
        == "ACTIVE: ACTIVE=3 of 3\n\nzone       instances\neu                 1\nthis zone          1\n"
    )


def test_why_of_a_boot_that_failed_says_the_reasons(command: StubCommand) -> None:
    command.stub.answer("GET", "/servers/detail", (200, {"servers": []}))
    command.stub.answer("GET", "/reservations/r1", boot("ERROR", ERROR=1))
    assert command("reservation", "why", "r1") == 0
    assert command.out.startswith("ERROR: ERROR=1 of 1\nreason")
