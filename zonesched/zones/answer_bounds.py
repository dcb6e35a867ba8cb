"""Bounds of the answer to each call to a child: they follow from the request.

Reading stops at the bytes; the values are counted in the text, before a parser builds any of them. Each bound
leaves room for members that a later version adds, and for a child whose blobs have grown since its last poll.
"""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.console import MAX_CONSOLE_BYTES
from zonesched.model.json_shape import Verdict, judge
from zonesched.model.offer_page import WHOLE, Page
from zonesched.model.request_spec import Policy, RequestSpec
from zonesched.zones.answers import MAX_CHANGES

_REST_BYTES, _REST_VALUES = 64 * 1024, 2048
"""Bytes for everything in an answer that is not one of its entries, such as `why`."""

_ENTRY_BYTES, _ENTRY_VALUES = 192, 16
"""Limits of bytes of an entry without its blob, and of a build."""

_CHANGE_BYTES, _CHANGE_VALUES = 640, 40


@dataclass(frozen=True)
class AnswerBound:
    """The largest body that is read, and the maximum of values in its JSON."""

    max_bytes: int
    max_values: int

    def fits(self, body: bytes) -> bool:
        """Tell whether a body has no more values than may be built."""
        # A parser bounds the depth by itself.
        return judge(body, max_depth=self.max_values, max_values=self.max_values) is Verdict.FITS


INFO = AnswerBound(4 * 2**20, 150_000)
ONE_SERVER = AnswerBound(_REST_BYTES, _REST_VALUES)
REQUEST_OF = AnswerBound(3 * _REST_BYTES, _REST_VALUES)
"""Three images and three flavors."""
CONSOLE = AnswerBound(_REST_BYTES + 6 * MAX_CONSOLE_BYTES, _REST_VALUES)
"""JSON may write a byte of the output as six."""
CHANGES = AnswerBound(
    _REST_BYTES + MAX_CHANGES * _CHANGE_BYTES,
    _REST_VALUES + MAX_CHANGES * _CHANGE_VALUES,
)


def of_select(spec: RequestSpec, blob_bytes: int, page: Page = WHOLE) -> AnswerBound:
    """Bound of a select's answer; `blob_bytes`: the largest sealed entry that the child may offer."""
    if spec.policy is Policy.AFFINITY:
        entries = spec.num_instances * (1 + spec.alternates)
    else:
        entries = min(spec.num_instances, page.entries) + spec.alternates
    text_bytes = blob_bytes * 4 // 3 + 4
    return AnswerBound(
        _REST_BYTES + entries * (_ENTRY_BYTES + text_bytes), _REST_VALUES + entries * _ENTRY_VALUES
    )


def of_builds(count: int) -> AnswerBound:
    """Bound of the answer to so many builds, confirms or cancels."""
    return AnswerBound(_REST_BYTES + count * _CHANGE_BYTES, _REST_VALUES + count * _CHANGE_VALUES)
