"""All targets by name."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.fuzzing import api_calls, child_answers, files, http_bytes, requests, sealed, small_texts
from benchmarks.fuzzing.target import Target

TARGETS: Mapping[str, Target] = {
    target.name: target
    for module in (api_calls, http_bytes, requests, child_answers, sealed, files, small_texts)
    for target in module.TARGETS
}
