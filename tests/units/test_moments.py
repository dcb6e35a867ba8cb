"""Times in queries, compared with the times that answers show."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonesched.api.schemas.moments import since_s, until_s
from zonesched.model.openstack_time import iso_time, zoneless_time

MOMENTS = st.floats(min_value=1.0, max_value=4e9)


@given(MOMENTS)
def test_a_moment_is_found_by_the_second_and_by_the_microsecond_that_is_shown(moment: float) -> None:
    for shown in (iso_time(moment), zoneless_time(moment)):
        assert since_s(shown) <= moment <= until_s(shown)


@given(MOMENTS)
def test_a_moment_two_seconds_away_is_not_found_by_it(moment: float) -> None:
    assert until_s(iso_time(moment)) < moment + 2.0
    assert since_s(iso_time(moment + 2.0)) > moment


def test_no_time_asks_for_all() -> None:
    assert (since_s(""), until_s("")) == (0.0, 0.0)
