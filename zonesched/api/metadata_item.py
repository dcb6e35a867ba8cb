"""One item of the metadata of a server or an image, which the URL names."""

from __future__ import annotations

from collections.abc import Mapping

from zonesched.api.call import Call
from zonesched.errors import BadRequest, NotFound


def item_of(call: Call) -> Mapping[str, str]:
    """Return the item of the body. Raise BadRequest for a body that has others than the URL names."""
    key, meta = call.args["key"], call.body.meta
    if list(meta) != [key]:
        raise BadRequest(f"meta: must have {key!r} alone, as the URL names it.", field="meta")
    return dict(meta)


def value_of(present: Mapping[str, str], key: str) -> str:
    """Return the value of one item. Raises NotFound where there is no such item."""
    if key not in present:
        raise NotFound("The metadata has no such item.", code="metadata_not_found", field="key")
    return present[key]


def without(present: Mapping[str, str], key: str) -> Mapping[str, str]:
    """Return metadata without one item. Raises NotFound where there is no such item."""
    value_of(present, key)
    return {name: value for name, value in present.items() if name != key}
