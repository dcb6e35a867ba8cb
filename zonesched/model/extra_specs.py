"""Names of a flavor's extra specs that ask for resources and traits, as in OpenStack Nova.

Nova groups them by a suffix: `resources1:VGPU` and `trait1:CUSTOM_FAST` are of one provider of the host. Here
a host is one provider, so it meets the demands of all groups together.

>>> resource_class_in("resources_NET:SRIOV_NET_VF"), trait_in("trait1:CUSTOM_FAST")
('SRIOV_NET_VF', 'CUSTOM_FAST')
>>> resource_class_in("hw:cpu_policy"), trait_in("traits:any_of")
(None, None)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

TRAITS_ANY_OF = "traits:any_of"
GROUP_POLICY = "group_policy"
GROUP_POLICIES = ("none", "isolate")

_DEMAND = re.compile(r"(resources|trait)([A-Za-z0-9_-]{0,64}):(.*)", re.DOTALL)


def resource_class_in(key: str) -> str | None:
    """Return the resource class that the name of an extra spec asks for; None for any other name."""
    return _name_in(key, "resources")


def trait_in(key: str) -> str | None:
    """Return the trait that the name of an extra spec is about; None for any other name."""
    return _name_in(key, "trait")


def number_of_groups(keys: Iterable[str]) -> int:
    """Return how many groups with a suffix ask for resources."""
    found = (_DEMAND.fullmatch(key) for key in keys)
    return len({demand[2] for demand in found if demand and demand[1] == "resources" and demand[2]})


def fault_of_group_policy(specs: Mapping[str, str]) -> str:
    """Describe why no host can meet the policy of the groups; "" where one can, or without a policy.

    Nova's `isolate` wants each group from another provider of the host.
    """
    policy = specs.get(GROUP_POLICY, GROUP_POLICIES[0])
    if policy not in GROUP_POLICIES:
        return f"must be one of {', '.join(GROUP_POLICIES)}"
    if policy == "isolate" and number_of_groups(specs) > 1:
        return "must be none: a host is one provider of all its resources"
    return ""


def _name_in(key: str, word: str) -> str | None:
    demand = None if key == TRAITS_ANY_OF else _DEMAND.fullmatch(key)
    return demand[3] if demand and demand[1] == word else None
