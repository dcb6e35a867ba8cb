"""The list of bugs to plant stays true to the code; trying them out is benchmarks/planted_bugs.py's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.planted.bug import Bug
from benchmarks.planted.bugs import BUGS
from benchmarks.planted.names import uses_of_names
from benchmarks.planted.run import CannotJudge, Outcome, first_failure, report
from benchmarks.planted.statements import annotated, entries, lines_of_calls, without_call, without_entry

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_can_be_planted_and_removed(tmp_path: Path, bug: Bug) -> None:
    # given a copy of the file that it is planted in
    copy = tmp_path / bug.path
    copy.parent.mkdir(parents=True)
    right = (CHECKOUT / bug.path).read_text()
    copy.write_text(right)
    # when it is planted, then the file still is Python, one line of it is another one
    bug.plant(tmp_path)
    compile(copy.read_text(), bug.path, "exec")
    assert copy.read_text() != right
    assert bug.right.count("\n") <= 1
    # and it can be taken out again
    bug.remove(tmp_path, CHECKOUT)
    assert copy.read_text() == right


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_tests_that_should_catch_a_bug_exist(bug: Bug) -> None:
    assert bug.tests
    assert all((CHECKOUT / name).is_file() for name in bug.tests)


def test_no_two_bugs_have_one_name_and_there_are_enough() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 25


def test_a_line_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    bug = Bug("lost", "nothing", "a.py", "y = 1", "y = 2", ())
    with pytest.raises(ValueError, match="stands 0 times"):
        bug.plant(tmp_path)


@pytest.mark.slow
def test_a_failing_test_is_named_and_tests_that_do_not_run_are_no_catch(tmp_path: Path) -> None:
    (tmp_path / "test_good.py").write_text("def test_a(): pass\n")
    (tmp_path / "test_bad.py").write_text("def test_b(): assert False\n")
    (tmp_path / "test_broken.py").write_text("import nowhere_to_be_found\n")
    assert first_failure(tmp_path, ["test_good.py"]) == ""
    assert first_failure(tmp_path, ["test_good.py", "test_bad.py"]) == "test_bad.py::test_b"
    with pytest.raises(CannotJudge):
        first_failure(tmp_path, ["test_broken.py"])


def test_the_last_line_counts_what_was_caught() -> None:
    found = [Outcome(BUGS[0], "tests/test_x.py::test_y"), Outcome(BUGS[1], "")]
    assert json.loads(report(found)) == {
        "name": "planted_bugs",
        "planted": 2,
        "caught": 1,
        "missed": [BUGS[1].name],
    }


def test_a_call_is_taken_away_whole() -> None:
    source = "def f(x: int | None) -> None:\n    g(\n        x,\n    )  # why\n    y = g(x)\n"

    assert lines_of_calls(source) == [2]
    assert without_call(source, 2) == "def f(x: int | None) -> None:\n    pass  # why\n    y = g(x)\n"


def test_nothing_of_an_annotation_is_changed() -> None:
    source = "def f(x: int | None) -> str | None:\n    y: int | None = x | 1\n"

    assert {(1, source.index("|")), (1, source.rindex("|", 0, 40)), (2, 11)} <= annotated(source)
    assert (2, source.splitlines()[1].rindex("|")) not in annotated(source)


def test_what_a_module_names_at_its_import_is_reached_by_who_uses_it() -> None:
    # given a statement made of another name, one that a function uses, and one that nobody uses
    source = (
        "CLASS = (\n    1,\n)\nTAKE = where(CLASS)\nALONE: int = 2\n\n"
        "def f() -> None:\n    g()\n    TAKE.run()\n\ndef g() -> int:\n    return CLASS\n"
    )

    # and another module that uses them by its own name of the first, and by that of one of them
    other = (
        "from package import first as f\nfrom package.first import TAKE\n\nMOST = {f.ALONE}\n\n"
        "def h() -> None:\n    MOST.add(TAKE)\n"
    )

    uses = uses_of_names({"package/first.py": source, "package/other.py": other})

    by_line = {
        (Path(path).stem, number): {(Path(at.path).stem, at.number) for at in used}
        for (path, number), used in uses.items()
    }
    taken = {("first", 9), ("other", 7)}
    assert by_line == {
        **{("first", number): taken | {("first", 12)} for number in (1, 2, 3)},
        ("first", 4): taken,
        ("first", 5): {("other", 7)},
        ("other", 4): {("other", 7)},
    }


def test_an_entry_of_a_table_or_a_set_is_taken_away_whole() -> None:
    # given two tables and a set that a module gives at its import, and a table within a function
    source = (
        "MOVES = {\n    1: (\n        2\n    ),  # why\n    (1, 2): g(\n        3,\n    ),\n    **MORE,\n}\n"
        "SET = f({4, 5})\n\ndef f(x: int) -> dict:\n    return {1: x}\n"
    )

    assert entries(source) == [2, 5, 8, 10, 10]
    assert [without_entry(source, number) for number in range(5)] == [
        source.replace("1: (\n        2\n    ),  # why\n    (1", "(1"),
        source.replace("(1, 2): g(\n        3,\n    ),\n    ", ""),
        source.replace("    **MORE,\n", "    "),
        source.replace("{4, 5}", "{5}"),
        source.replace("{4, 5}", "{4, }"),
    ]
