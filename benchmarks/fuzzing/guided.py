"""Play one target for a time, guided by the edges that inputs reach; libFuzzer counts them on standard error.

    python -m benchmarks.fuzzing.guided TARGET SECONDS SEED CORPUS

The bytes that libFuzzer changes are the choices of the target's strategy, so each input is still built from a
valid value.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import atheris
from hypothesis import given

# Whatever is imported from here on counts its edges.
with atheris.instrument_imports(include=["zonesched", "gunicorn.http"]):
    from benchmarks.fuzzing import play
    from benchmarks.fuzzing.catalog import TARGETS
from benchmarks.fuzzing.target import GUIDED_FACTOR, Judge, Target

FIRST_COUNT, FIRST_SIZES = 64, (256, 1024, 4096, 16384)
"""Random buffers that the corpus starts with: shorter ones hold too few choices for a whole input."""


def play_guided(target: Target, seconds: float, seed: int, corpus: Path) -> None:
    """Play for so many seconds; print the tally and end the process."""
    rng = random.Random(seed)
    for number in range(FIRST_COUNT):
        (corpus / f"first-{number}").write_bytes(rng.randbytes(rng.choice(FIRST_SIZES)))
    folder = tempfile.mkdtemp(prefix="zonesched-fuzz-")
    with target.opened(Path(folder)) as check, play.quiet():
        judge = Judge(check, GUIDED_FACTOR)
        test = play.SETTINGS(given(target.inputs())(play.going_on(judge)))
        ends_at = time.monotonic() + seconds

        def play_one(data: bytes) -> None:
            if time.monotonic() >= ends_at or len(judge.tally.finds) >= play.MAX_FINDS:
                play.report(judge.tally)
                # An exception would be a find to libFuzzer, and its own end runs no code of ours.
                shutil.rmtree(folder, ignore_errors=True)
                os._exit(0)
            test.hypothesis.fuzz_one_input(data)

        limits = [f"-max_len={max(FIRST_SIZES)}", "-len_control=0", "-rss_limit_mb=0", "-timeout=3600"]
        options = [*limits, f"-seed={seed}", f"-artifact_prefix={corpus}/", os.fspath(corpus)]
        atheris.Setup([sys.argv[0], *options], play_one)
        atheris.Fuzz()


if __name__ == "__main__":
    _name, _seconds, _seed, _corpus = sys.argv[1:]
    play_guided(TARGETS[_name], float(_seconds), int(_seed), Path(_corpus))
