"""The contract of a weigher: one raw number per host, higher is better; the scheduler scales and adds them.

A weigher written for OpenStack Nova is ported by changing its import: `_weigh_object` and
`weight_multiplier`. The vectorised form, `weigh`, must give the very same numbers.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from zonesched.conf import Conf
from zonesched.errors import Unavailable
from zonesched.model.arrays import Floats
from zonesched.model.host_state import HostState
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec


class WeigherFailed(Unavailable):
    """A weigher raised, or gave a value that is not finite: the request is refused in that weigher's name.

    So may a cost function or a scheduler that weighs, which `kind` then says.
    """

    code = "weigher_failed"

    def __init__(self, weigher_name: str, kind: str = "weigher") -> None:
        super().__init__(f"The {kind} {weigher_name} failed.")
        self.weigher_name = weigher_name


class BaseHostWeigher:
    """A weigher; settings arrive in its constructor, by `from_conf`.

    `minval` and `maxval`, where not None, take the place of the lowest and highest raw value in the scale.
    A weigher whose raw value depends on the request declares both. `multiplier_key`, where not empty, is the
    key in the metadata of aggregates under which their hosts get another multiplier; of several the smallest.
    A value in the metadata below `min_multiplier` is ignored, and `multiplier_sign` turns it into the factor:
    -1.0 for a weigher that avoids hosts with a high raw value.
    """

    multiplier_key = ""
    multiplier_sign = 1.0
    min_multiplier = -math.inf
    minval: float | None = None
    maxval: float | None = None

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        """Return the weigher with this zone's settings."""
        return cls()

    def weight_multiplier(self) -> float:
        """Return the factor of the scaled value; a negative one reverses the order."""
        return 1.0

    @property
    def vectorised(self) -> bool:
        """True if the weigher answers for many hosts at once; it may then be asked about any host."""
        return type(self).weigh is not BaseHostWeigher.weigh

    def weighs(self, spec: RequestSpec) -> bool:
        """Return False if the weigher has nothing to say about the request; it is then not asked."""
        return True

    def _weigh_object(self, host_state: HostState, spec: RequestSpec) -> float:
        """Return the raw value of one host; it must be finite."""
        raise NotImplementedError(f"{type(self).__name__} has no _weigh_object")

    def weigh(self, hosts: HostView, spec: RequestSpec) -> Floats:
        """Return the raw value of each host of the view; the default asks `_weigh_object` about each."""
        values = (float(self._weigh_object(state, spec)) for state in hosts.states())
        return np.fromiter(values, dtype=np.float64, count=len(hosts))
