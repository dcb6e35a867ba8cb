"""The log of rows that have changed, where more change than it keeps."""

from __future__ import annotations

from zonesched.model.change_log import MAX_ROWS, ChangeLog


def test_who_has_not_seen_more_rows_than_are_kept_starts_anew() -> None:
    log = ChangeLog()
    before = log.mark
    log.note(range(MAX_ROWS))
    full = log.mark
    at_most = log.rows_since(before)

    log.note([MAX_ROWS])

    assert at_most is not None
    assert at_most.tolist() == list(range(MAX_ROWS))
    assert (log.rows_since(before), log.rows_since(full)) == (None, None)


def test_who_starts_anew_sees_what_changes_later() -> None:
    log = ChangeLog()
    log.note(range(MAX_ROWS + 1))
    anew = log.mark

    log.note([7])

    rows = log.rows_since(anew)
    assert rows is not None
    assert rows.tolist() == [7]
