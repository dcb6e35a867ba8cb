"""The documentation says what the code does: tables, codes, links and examples are checked against it."""

from __future__ import annotations

import ast
import doctest
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click
import option_tables
import orjson
import plugin_pages
import pytest

from zonesched import conf, errors
from zonesched.api.errors import _KIND_OF_STATUS
from zonesched.api.openapi import document
from zonesched.api.route import Route
from zonesched.api.routing import routes_by_rule
from zonesched.api.schemas.unsupported_actions import UnsupportedActions
from zonesched.api.urls import URLS
from zonesched.api.validation import _CODES
from zonesched.cli.main import zonesched
from zonesched.cli.waiting import WORDS
from zonesched.compute.main import main as zonesched_compute
from zonesched.errors import Kind
from zonesched.model import action_reasons
from zonesched.model.caller import Role
from zonesched.model.pending_step import NextStep
from zonesched.model.placement import BuildState, InstanceStatus, PlacementState
from zonesched.model.shown_status import Status
from zonesched.services.boot.boot_progress import Step
from zonesched.services.select.faults import MESSAGES, PLACE_CODES
from zonesched.serving.run_zone import main as zonesched_zone

CHECKOUT = Path(__file__).parents[2]
README = CHECKOUT / "README.md"
DOCS = CHECKOUT / "docs"
PACKAGE = CHECKOUT / "zonesched"
MADE = {(DOCS / plugin_pages.FOLDER / path).resolve() for path in plugin_pages.PATHS}
"""Pages that are there only once they are built."""

PAGES = [
    README,
    *sorted(path for path in DOCS.rglob("*.md") if not {"_build", plugin_pages.FOLDER} & set(path.parts)),
]
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
SOURCES = {path: path.read_text() for path in sorted((CHECKOUT / "zonesched").rglob("*.py"))}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(SOURCES[path])


FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
LONGEST_DECISION = 60


def text(page: str) -> str:
    return (DOCS / page).read_text()


def prose(path: Path) -> str:
    """A page without what stands in code blocks."""
    return FENCED.sub("", path.read_text())


def blocks(path: Path, language: str) -> list[str]:
    """The code blocks of one language."""
    return [code for found, code in FENCED.findall(path.read_text()) if found == language]


def rows(section: str) -> list[list[str]]:
    """The cells of the first table in a piece of a page, without its head."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def section(path: Path, heading: str) -> str:
    """Text under a heading, up to the next one of the same or a higher level."""
    level = heading.index(" ")
    start = re.search(rf"^{re.escape(heading)}$", path.read_text(), re.MULTILINE)
    assert start, f"{path.name} has no heading {heading!r}"
    rest = path.read_text()[start.end() :]
    return re.split(rf"^#{{1,{level}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def in_backticks(page: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", page))


# -- links and names ---------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for target in LINK.findall(prose(page)):
            if not re.match(r"[a-z]+:", target):
                yield page, target


@pytest.mark.parametrize("page", sorted({page for page, _ in links()}), ids=lambda page: page.name)
def test_each_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in {target for at, target in links() if at == page}:
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path not in MADE, f"{target}: that page is not in a clone"
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_files_and_tests_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:zonesched|tests|etc|docs|benchmarks)/[\w./-]*)((?:::\w+)*)`", page.read_text())
    for name, test in named:
        path = CHECKOUT / name
        assert path.exists(), name
        for part in test.split("::")[1:]:
            assert re.search(rf"\b(def|class) {part}\b", path.read_text()), f"{name}{test}"


def test_every_page_is_in_the_contents() -> None:
    listed: set[Path] = set()
    for contents in (DOCS / "index.md", DOCS / "decisions" / "index.md"):
        for tree in re.findall(r"```{toctree}\n(.*?)```", contents.read_text(), re.DOTALL):
            entries = [line for line in tree.split() if not line.startswith(":") and not line.isdigit()]
            listed |= {path for entry in entries for path in contents.parent.glob(f"{entry}.md")}
    assert listed - MADE == {page for page in PAGES if page not in (README, DOCS / "index.md")}


def test_every_decision_is_listed_under_its_title() -> None:
    listed = {name: title for title, name in re.findall(r"\[(.+)\]\((0.+\.md)\)", text("decisions/index.md"))}
    assert listed == {page.name: page.read_text().splitlines()[0].partition(". ")[2] for page in DECISIONS}


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_names_modules_that_exist(page: Path) -> None:
    named = set(re.findall(r"`([\w/]+/\w+\.py)`", page.read_text()))
    assert {name for name in named if not any((at / name).is_file() for at in (CHECKOUT, PACKAGE))} == set()


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_names_members_that_their_modules_have(page: Path) -> None:
    for module, member in re.findall(r"`(\w+)\.(?!py`)(\w+)`", page.read_text()):
        sources = [source for path, source in SOURCES.items() if path.stem == module]
        has_it = any(re.search(rf"\b{member}\b", source) for source in sources)
        assert has_it or not sources, f"{module}.{member}"


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_is_short_and_names_its_costs(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert len(lines) <= LONGEST_DECISION
    assert lines[0].startswith(f"# {int(page.stem[:4])}. ")
    assert {"## Question", "## Decision", "## What it costs"} <= set(lines)


# -- README ------------------------------------------------------------------------------------------------


def roles_in_words(route: Route) -> str:
    return "everybody" if route.is_open else ", ".join(role.value for role in Role if role in route.roles)


def test_the_table_of_calls_is_that_of_the_code() -> None:
    table = [tuple(cells[:3]) for cells in rows(section(README, "## Calls"))]
    assert all(cells[3] for cells in rows(section(README, "## Calls")))
    assert table == [
        (route.method, f"`{route.url}`", who) for route in URLS if (who := roles_in_words(route))
    ]


def test_the_calls_that_need_no_credentials_are_listed() -> None:
    _, _, listed = text("security.md").partition("- These need no credentials: ")
    beside, _, also_under = listed.partition("; and the")[0].partition(", and, also under `/v2.1`, ")
    both = set(re.findall(r"`(/[^`]*)`", also_under))
    assert set(re.findall(r"`(/[^`]*)`", beside)) | both | {f"/v2.1{path}" for path in both} == {
        rule.removeprefix("GET ") for rule, routes in routes_by_rule().items() if routes[0].is_open
    }


def test_every_promise_names_tests() -> None:
    promises = rows(section(README, "## Promises"))
    assert [cells[0] for cells in promises] == [f"P{number}" for number in range(1, 8)]
    for cells in promises:
        assert re.findall(r"`(tests/\w+/test_\w+\.py)`", cells[-1]), cells[0]


# -- configuration -----------------------------------------------------------------------------------------


def test_the_tables_of_options_are_current() -> None:
    page = text("configuration.md")
    assert page == option_tables.page_with_tables(page), "run python docs/option_tables.py"


def test_every_option_has_a_row() -> None:
    named = re.findall(r"^\| `(\w+)` \| .+ \| .+ \| .+ \|$", text("configuration.md"), re.MULTILINE)
    assert sorted(named) == sorted(option.name for option in conf.ALL)


# -- the wire ----------------------------------------------------------------------------------------------


REASONED = ("Refusal", "FunnelStep", "narrow")
"""Functions that take the name of a filter, then its code."""


def codes_in_source() -> set[str]:
    """Every text that is given as a code or as a reason, and what schemas refuse with."""
    found: set[str] = set()
    for path, source in SOURCES.items():
        found |= set(re.findall(r"\bcode ?= ?\"(\w+)\"", source))
        found |= set(re.findall(r"\brefusal\(\s*\"(\w+)\"", source))
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                found |= texts_in(*node.args[1:2]) if name in REASONED else set()
                reasons = [given.value for given in node.keywords if given.arg == "reason"]
                found |= texts_in(*(choice for reason in reasons for choice in choices(reason)))
    return found - {""}


def choices(value: ast.expr) -> list[ast.expr]:
    """Values of an expression where they can be read: a constant, or one of two."""
    either = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    return [one for one in either if isinstance(one, ast.Constant)]


def texts_in(*nodes: ast.AST) -> set[str]:
    return {
        found.value
        for node in nodes
        for found in ast.walk(node)
        if isinstance(found, ast.Constant) and isinstance(found.value, str)
    }


def test_every_code_is_listed() -> None:
    codes = codes_in_source() | set(_CODES.values()) | {code for _, code, _ in _KIND_OF_STATUS.values()}
    codes |= MESSAGES.keys()
    assert codes - in_backticks(section(DOCS / "wire.md", "## Codes")) == set()


def test_every_listed_code_is_used() -> None:
    listed = {cells[0].strip("`") for cells in rows(section(DOCS / "wire.md", "### Codes of errors"))}
    texts = set[str]().union(*(texts_in(parsed(path)) for path in SOURCES))
    assert listed - texts == set()


NO_ANSWERS = (errors.ChildUnreachable,)
"""Faults of a child, which are no answers to callers."""


def raised() -> Iterator[tuple[str, int]]:
    """Each code that is given to a fault where it is made, and the status of that fault."""
    kinds = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    calls = (node for path in SOURCES for node in ast.walk(parsed(path)) if isinstance(node, ast.Call))
    for call in calls:
        made = kinds.get(getattr(call.func, "id", ""))
        if made is not None and issubclass(made, errors.ZoneschedError) and made not in NO_ANSWERS:
            for code in texts_in(*(given.value for given in call.keywords if given.arg == "code")):
                yield code, made.kind.status


def test_each_code_of_an_error_is_listed_with_its_status() -> None:
    table = rows(section(DOCS / "wire.md", "### Codes of errors"))
    # One without a status is of a command, or in the log alone.
    listed = {cells[0].strip("`"): cells[1].split(", ") for cells in table if cells[1] != "-"}
    printed = {cells[0].strip("`") for cells in table} - listed.keys()
    wrong = {code for code, status in raised() if str(status) not in listed.get(code, [])}
    assert wrong - printed == set()


def codes_of(heading: str) -> set[str]:
    """The codes in the first column of a table of the wire formats."""
    return {code for cells in rows(section(DOCS / "wire.md", heading)) for code in in_backticks(cells[0])}


def test_every_reason_of_a_failed_action_has_a_message() -> None:
    # A server in ERROR gives its own reason, which has its message by `faults`.
    assert codes_of("### Why an action failed") - {"server_failed"} == action_reasons.MESSAGES.keys()


def test_every_reason_of_a_server_in_error_has_a_message() -> None:
    assert codes_of("### Why an instance is in ERROR") == MESSAGES.keys()


def test_a_parent_gets_each_listed_reason_of_a_build_that_was_not_built() -> None:
    # A parent that finds its child busy says so itself.
    assert codes_of("### Why a build failed or is gone") - {"child_busy"} == PLACE_CODES


def test_every_kind_of_fault_is_listed_with_its_status() -> None:
    table = {(cells[0].strip("`"), cells[1]) for cells in rows(section(DOCS / "wire.md", "## Errors"))}
    assert table == {(kind.body_name, str(kind.status)) for kind in Kind}


def test_every_member_of_a_request_is_described() -> None:
    schemas: Mapping[str, Any] = document(URLS)["components"]["schemas"]
    members = {name for schema in schemas.values() for name in schema.get("properties", {})}
    described = set(re.findall(r"[\w:-]+", " ".join(in_backticks(text("wire.md")))))
    described |= set(re.findall(r'"([\w:-]+)":', " ".join(blocks(DOCS / "wire.md", "json"))))
    assert members - described == set()


def test_every_call_with_a_body_is_described() -> None:
    for route in URLS:
        if route.body is not None:
            assert re.search(rf"{re.escape(route.path)}(?!\w)", text("wire.md")), route.path


def test_the_largest_body_of_every_call_is_listed() -> None:
    cells = rows(section(DOCS / "wire.md", "### Largest bodies"))
    listed = {call: (size, values) for calls, size, values in cells for call in calls.split(", `")}
    listed = {call.replace("`", ""): limit for call, limit in listed.items()}
    for route in URLS:
        if route.body is None:
            continue
        limit = route.body.body_limit
        call = f"{route.method} {route.path}"
        as_parent = f"{call}, as a parent"
        if as_parent in listed and Role.PARENT in route.roles:
            call = as_parent
        size = _per_instance(limit.bytes, limit.bytes_each)
        values = _per_instance(limit.values, limit.values_each)
        assert listed.get(call, listed["any other"]) == (size, values), call


def _per_instance(fixed: int, each: int) -> str:
    return f"{fixed} + {each}" if each else str(fixed)


@pytest.mark.parametrize("states", [BuildState, InstanceStatus], ids=lambda states: states.__name__)
def test_every_state_on_the_wire_is_described(states: type[BuildState] | type[InstanceStatus]) -> None:
    words = set(re.findall(r"\w+", text("wire.md")))
    assert {state.value for state in states} <= words


def test_every_status_of_a_server_and_every_refused_action_has_a_row() -> None:
    statuses = text("wire.md").partition("| status | means |\n|---|---|\n")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"[A-Z_]+(?=[^|]* \| )", statuses)) == sorted(Status.__members__)
    refused = text("wire.md").partition("| refused action | value |\n|---|---|\n")[2].partition("\n\n")[0]
    named = [name for row in refused.splitlines() for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    fields = UnsupportedActions.model_fields
    assert sorted(named) == sorted(field.alias or name for name, field in fields.items())


def test_every_step_that_a_boot_waits_for_is_described_in_order() -> None:
    listed = [cells[0].strip("`") for cells in rows(section(DOCS / "wire.md", "### GET /reservations/{id}"))]
    assert listed == [step.value for step in NextStep]
    assert set(WORDS) == set(listed)


def test_json_on_the_wire_is_json() -> None:
    for page in PAGES:
        for block in blocks(page, "json"):
            orjson.loads(block)


# -- the flow, operating -----------------------------------------------------------------------------------


def test_every_state_and_step_of_a_boot_is_in_the_flow() -> None:
    words = set(re.findall(r"\w+", text("flow.md")))
    assert {state.name for state in PlacementState} <= words
    assert {step.name for step in Step} <= words


def test_every_package_is_in_the_flow() -> None:
    listed = set(re.findall(r"\w+", blocks(DOCS / "flow.md", "text")[0]))
    packages = {path.parent.name for path in SOURCES if path.parent.parent in (PACKAGE, PACKAGE / "services")}
    assert packages <= listed


def test_every_background_loop_is_in_the_flow() -> None:
    started = re.findall(r"\b(?:loop|acting)\(f?\"([\w-]+)", SOURCES[PACKAGE / "services" / "background.py"])
    listed = [cells[0] for cells in rows(section(DOCS / "flow.md", "## In the background"))]
    assert sorted(name for cell in listed for name in cell.split(", ")) == sorted(
        "boot-0 ..." if name == "boot-" else name for name in started
    )


def kinds_of_inconsistencies() -> set[str]:
    """The first argument of each Inconsistency(...) and _inconsistency(...) in the code."""
    found: set[str] = set()
    for path in (path for path, source in SOURCES.items() if "inconsistency(" in source.lower()):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                kind = node.args[0]
                is_inconsistency = node.func.id.lower().strip("_") == "inconsistency"
                if is_inconsistency and isinstance(kind, ast.Constant) and isinstance(kind.value, str):
                    found.add(kind.value)
    return found


def test_every_kind_of_inconsistency_is_explained() -> None:
    tables = section(DOCS / "operate.md", "## The audit")
    explained = set(re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE))
    assert explained == kinds_of_inconsistencies()


def test_every_part_that_may_fail_names_a_test_that_there_is() -> None:
    """Each row of the table names tests that show it, as files or as files with a function."""
    table = rows(section(DOCS / "operate.md", "## What happens when a part fails"))
    assert len(table) > 40
    for cells in table:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::([\w:]+))?`", cells[-1])
        assert named, cells[0]
        for file, function in named:
            source = (DOCS.parent / file).read_text()
            for name in filter(None, function.split("::")):
                assert re.search(rf"^ *(def|class) {name}\b", source, re.MULTILINE), (file, name)


PROGRAMS: Mapping[str, click.Command] = {
    "zonesched": zonesched,
    "zonesched-zone": zonesched_zone,
    "zonesched-compute": zonesched_compute,
}


def command_lines() -> Iterator[str]:
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                if Path(line.split(" ")[0]).name in PROGRAMS:
                    yield line


@pytest.mark.parametrize("line", sorted(set(command_lines())), ids=lambda line: line[:60])
def test_a_command_that_is_shown_can_be_given(line: str) -> None:
    program, *words = shlex.split(line)
    command = PROGRAMS[Path(program).name]
    while isinstance(command, click.Group):
        context = click.Context(command)
        _, (name, *words), _ = command.make_parser(context).parse_args(words)
        found = command.get_command(context, name)
        assert found is not None, f"there is no {name}"
        command = found
    known = {option for parameter in command.params for option in parameter.opts}
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert given <= known


# -- plugins -----------------------------------------------------------------------------------------------


def test_the_examples_of_plugins_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = DOCS / "plugins.md"
    examples = blocks(page, "python")
    assert all(example.startswith("# acme.py\n") for example in examples)
    (tmp_path / "acme.py").write_text("\n\n".join(examples))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "acme", raising=False)
    session = doctest.DocTestParser().get_doctest(
        "\n".join(blocks(page, "pycon")), {}, page.name, page.name, 0
    )
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    said: list[str] = []
    results = runner.run(session, out=said.append)
    assert results.attempted > 20
    assert results.failed == 0, "".join(said)
