"""Trial of a child zone before it is added or changed: it must answer this zone as its parent.

`GET /zones/info` is not enough: an admin of the child may ask for that too. So the trial ends with a
select of the smallest request there is, which writes nothing and holds nothing.
"""

from __future__ import annotations

from typing import Any

from zonesched.errors import ChildRefused
from zonesched.model.request_spec import Flavor, Image, RequestSpec, ScoreWeighing
from zonesched.seams import Done, Failed, Late

WRONG_CREDENTIALS, NO_PARENT = "child_credentials_refused", "child_user_no_parent"


def refusal(outcome: Done[Any] | Failed | Late) -> str:
    """Return the code of a fault of this zone's user in the child; "" if none is known."""
    match outcome:
        case Failed(ChildRefused(status=401)):
            return WRONG_CREDENTIALS
        case Failed(ChildRefused(status=403)):
            return NO_PARENT
        case _:
            return ""


def smallest_request(request_id: str, zone_uuid: str, time_budget_s: float) -> RequestSpec:
    """Make a request for one instance of the smallest size, without weighers."""
    return RequestSpec(
        request_id=request_id,
        project_id=request_id,
        num_instances=1,
        flavor=Flavor("trial", "trial", 1, 1, 0),
        image=Image("", ""),
        weighing=ScoreWeighing(()),
        path=(zone_uuid,),
        time_budget_s=time_budget_s,
    )
