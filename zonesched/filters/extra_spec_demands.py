"""The extra specs of a flavor that are demands of one scope: `scope:key`, or `key` without any scope."""

from __future__ import annotations

from collections.abc import Sequence

from zonesched.errors import BadRequest
from zonesched.filters.requirement import Requirement, parse_requirement
from zonesched.model.extra_specs import GROUP_POLICY
from zonesched.model.request_spec import RequestSpec

FIELD = "flavor.extra_specs"


def demands_of(spec: RequestSpec, scope: str) -> Sequence[tuple[str, Requirement]]:
    """Return (key without the scope, demand) of each extra spec of `scope`, and of each without a scope.

    Those of other scopes (resources, trait, zone, hw, quota, ...) and `group_policy` are for others. Raises
    BadRequest (extra_spec_invalid, field flavor.extra_specs) for an empty key and a requirement of no known
    form.
    """
    found = []
    for name, text in spec.flavor.extra_specs.items():
        prefix, colon, rest = name.partition(":")
        if (colon and prefix != scope) or name == GROUP_POLICY:
            continue
        key = rest if colon else name
        if not all(key.split(":")):
            raise _refused(f"{name!r} has an empty part in its name")
        try:
            found.append((key, parse_requirement(text, of_parent=bool(spec.path))))
        except ValueError as error:
            raise _refused(f"{name}: {error}") from None
    return found


def _refused(why: str) -> BadRequest:
    return BadRequest(f"{FIELD}: {why}", code="extra_spec_invalid", field=FIELD)
