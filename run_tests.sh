#!/usr/bin/env bash
# ./run_tests.sh           the whole suite: what takes no second side by side, then the rest one by one
# ./run_tests.sh --fast    only what takes no second
# Other arguments go to pytest: ./run_tests.sh tests/test_seal.py -k expiry
set -euo pipefail

# shellcheck source=.ci/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/.ci/environment.sh"
make_environment test
cd "$root"

case ${1:-} in
    "")
        status=0
        "$python" -m pytest -q -n auto -m "not slow" || status=1
        "$python" -m pytest -q -m slow --durations=10 || status=1
        exit "$status"
        ;;
    --fast) exec "$python" -m pytest -q -n auto -m "not slow" "${@:2}" ;;
    *) exec "$python" -m pytest "$@" ;;
esac
