"""How changes that a child has not heard are split into calls that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zonesched.model.desired_call import MAX_IMAGES, MAX_PER_CALL
from zonesched.model.desired_state import Desired
from zonesched.model.request_spec import Flavor, Image
from zonesched.services.children.desired_calls import batches
from zonesched.store.instance_states import Untold


def an_image(number: int) -> dict[str, Any]:
    return {"image": Image(f"image-{number}", "linux")}


def a_flavor(number: int) -> dict[str, Any]:
    return {"flavor": Flavor(f"flavor-{number}", "small", 1, 512, 1)}


def untold(number: int, **desired: Any) -> Untold:
    return Untold(f"server-{number}", 1, "child", Desired(generation=1, **desired), 0)


@pytest.mark.parametrize("one", [an_image, a_flavor])
def test_a_call_has_no_more_images_and_flavors_than_a_child_takes(one: Callable[[int], Any]) -> None:
    # given twice as many servers as a call may have of either, each with one that the next server has, too
    due = [untold(number, **one(number // 2)) for number in range(2 * MAX_IMAGES + 1)]
    # when they are split, then the first call has as many as it may, and the second one the rest
    assert list(batches(due)) == [due[:-1], due[-1:]]
    # and as many of one again come after those
    again = [*due[:-1], untold(99, **one(0))]
    assert list(batches(again)) == [again]


def test_a_call_has_no_more_servers_than_a_child_takes() -> None:
    due = [untold(number) for number in range(MAX_PER_CALL + 1)]
    assert list(batches(due)) == [due[:-1], due[-1:]]
    assert list(batches(due[:-1])) == [due[:-1]]
    assert list(batches(())) == []
