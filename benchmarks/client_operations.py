"""Count the operations of OpenStack's clients that work: benchmarks/client_operations.py [--errors].

The operations are those of `client_operations.txt` beside this file, made once in its order on a tree of two
zones by the admin of its root, with the clients that `tests/processes/clients.txt` pins. The table is that of
docs/microversions.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Not this folder: its select.py would stand in for Python's own module.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import ast
import contextlib
import enum
import json
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import click

from tests.builders.client_compared import compared
from tests.builders.demo_tree import two_zones
from tests.builders.openstack_clients import NEWEST, NEWEST_OF_NOVA, Clients, Reply, admin_clients
from zonesched.demo.run import DemoRun

OPERATIONS = Path(__file__).with_suffix(".txt")
TITLES = {"sdk": "openstacksdk", "openstack": "`openstack`", "nova": "`nova`"}
LONGEST_WAIT_S = 60
NO_SUCH_CALL = "There is no such URL"
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LINE = re.compile(
    r"(?:(?P<saved>\w+) = )?(?P<client>sdk|openstack|nova|WAIT)(?:@(?P<version>[\d.]+))? (?P<words>.+)"
)


class Outcome(enum.IntEnum):
    """Outcome of a line; of several lines of one operation, the least counts."""

    ABSENT = 0
    REFUSED = 1
    WORKS = 2


@dataclass(frozen=True)
class Line:
    """One line of the list. `saved`: the name under which later lines find the id in its answer, or ""."""

    client: str
    version: str
    words: str
    saved: str

    @property
    def operation(self) -> str:
        """The client and its command or method, for instance `nova boot`."""
        match self.client:
            case "sdk":
                return f"sdk {self.words.partition('(')[0]}"
            case "openstack":
                return f"openstack {self.words.partition(' | ')[0]}"
        return f"{self.client} {self.words.split()[0]}"


@dataclass(frozen=True)
class Made:
    """A line that was run. `words` have the ids of earlier answers."""

    line: Line
    words: str
    reply: Reply

    @property
    def outcome(self) -> Outcome:
        if self.reply.code == 0:
            return Outcome.WORKS
        return Outcome.ABSENT if NO_SUCH_CALL in self.reply.err else Outcome.REFUSED


@click.command()
@click.option("--errors", is_flag=True, help="Print each line that fails with its error, before the table.")
def main(errors: bool) -> None:
    """Make each operation once on a tree of a root and a leaf of its own, and print how many work."""
    lines = list(read_lines(OPERATIONS.read_text()))
    with (
        tempfile.TemporaryDirectory() as folder,
        a_tree(Path(folder)) as tree,
        admin_clients(tree, Path(folder)) as clients,
    ):
        made: list[Made] = []
        for one in make_all(lines, clients):
            made.append(one)
            if errors and one.outcome is not Outcome.WORKS:
                text = f"{one.outcome.name.lower()}: {one.line.client} {one.words}\n{one.reply.err.strip()}\n"
                click.echo(text)
    click.echo("\n".join(table(made)))


def read_lines(text: str) -> Iterator[Line]:
    """The lines of a list, whose head says what they may be."""
    for text_line in text.splitlines():
        if found := LINE.fullmatch(text_line):
            newest = NEWEST_OF_NOVA if found["client"] == "nova" else NEWEST
            yield Line(found["client"], found["version"] or newest, found["words"], found["saved"] or "")
        elif text_line and not text_line.startswith("#"):
            raise click.ClickException(f"no line of a list of operations: {text_line!r}")


@contextlib.contextmanager
def a_tree(folder: Path) -> Iterator[DemoRun]:
    """A root and a leaf, four hosts each, with agents; the images `plain` and `spare`, the flavor `small`."""
    with two_zones(folder, hosts=4) as tree:
        root = tree.admin(tree.root)
        for name in ("plain", "spare"):
            root.call("POST", "/images", {"image": {"name": name, "properties": {"os": "linux"}}})
        root.call("POST", "/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}})
        yield tree


def make_all(lines: Iterable[Line], clients: Clients) -> Iterator[Made]:
    """Run the lines in their order; those that wait are no operations."""
    ids: dict[str, str] = {}
    for line in lines:
        try:
            words = line.words.format(**ids)
        except KeyError as error:
            raise click.ClickException(f"{line.words}: no earlier line has saved {error}") from error
        if line.client == "WAIT":
            wait(clients, *words.split())
            continue
        made = Made(line, words, make(clients, line, words))
        yield made
        if line.saved and made.outcome is Outcome.WORKS:
            ids[line.saved] = saved_id(line, made.reply.out)


def make(clients: Clients, line: Line, words: str) -> Reply:
    match line.client:
        case "sdk":
            return call(clients, words)
        case "openstack":
            return clients.openstack(*shlex.split(words.replace(" | ", " ", 1)), version=line.version)
    return clients.nova(*shlex.split(words), version=line.version)


def call(clients: Clients, words: str) -> Reply:
    """Call a method of the SDK; `words` is a Python call whose arguments are literals."""
    parsed = ast.parse(words, mode="eval").body
    if not (isinstance(parsed, ast.Call) and isinstance(parsed.func, ast.Name)):
        raise click.ClickException(f"{words}: this is no call")
    args = [ast.literal_eval(value) for value in parsed.args]
    kwargs = {word.arg or "": ast.literal_eval(word.value) for word in parsed.keywords}
    return clients.sdk_reply(parsed.func.id, *args, **kwargs)


def wait(clients: Clients, server: str, status: str) -> None:
    """Wait for a status; where it never comes, the next operation's error says why."""
    found = clients.sdk("find_server", server)
    if found:
        clients.sdk_reply("wait_for_server", found["id"], status, wait=LONGEST_WAIT_S)


def saved_id(line: Line, out: str) -> str:
    """The id in an answer: of the SDK, that of the first resource, else the first UUID in what is printed."""
    if line.client == "sdk":
        answer = json.loads(out)
        first = answer[0] if isinstance(answer, list) and answer else answer
        if first:
            return str(first.get("request_id") or first["id"])
    elif found := UUID.search(out):
        return found[0]
    raise click.ClickException(f"no id in the answer to {line.client} {line.words}: {out!r}")


def table(made: Iterable[Made]) -> Iterator[str]:
    """The table in Markdown, line by line."""
    least: dict[str, Outcome] = {}
    for one in made:
        operation = one.line.operation
        least[operation] = min(one.outcome, least.get(operation, Outcome.WORKS))
    yield "| client | operations | work | compared with the rows | refused with a reason | no such call |"
    yield "|---|---|---|---|---|---|"
    for client, title in TITLES.items():
        yield row(title, {name: found for name, found in least.items() if name.split()[0] == client}, least)
    yield row("together", least, least)


def row(title: str, outcomes: Mapping[str, Outcome], every: Mapping[str, Outcome]) -> str:
    count = Counter(outcomes.values())
    works = {name for name, outcome in outcomes.items() if outcome is Outcome.WORKS}
    cells = (
        title,
        len(outcomes),
        count[Outcome.WORKS],
        len(works & compared(every)),
        count[Outcome.REFUSED],
        count[Outcome.ABSENT],
    )
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
