#!/usr/bin/env bash
# ./run_tests.sh               the whole suite: slow tests first, and the others beside them
# ./run_tests.sh --fast        only tests that take less than a second; of those with real zones one variant
# ./run_tests.sh --postgresql  tests that use a database, on PostgreSQL: a private server, unless
#                              ZONESCHED_TEST_DATABASE_URL names one
# Other arguments go to pytest: ./run_tests.sh tests/units/test_seal.py -k expiry
set -euo pipefail

# shellcheck source=.ci/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/.ci/environment.sh"
make_environment test
cd "$root"

whole_suite() {
    local cores
    cores=$("$python" -c 'import os; print(len(os.sched_getaffinity(0)))')
    # Many slow tests wait for processes that they have started, which leaves time for three more workers.
    "$python" -m pytest -q -n "$((cores + 3))" --dist worksteal --durations=10
}

case ${1:-} in
    "") whole_suite ;;
    --fast) exec "$python" -m pytest -q -n auto --dist worksteal -m "not slow" --first-variants "${@:2}" ;;
    --postgresql)
        if [ -z "${ZONESCHED_TEST_DATABASE_URL:-}" ]; then
            # shellcheck source=.ci/services.sh
            . .ci/services.sh
            start_postgresql
        fi
        if [ $# = 1 ]; then whole_suite; else "$python" -m pytest "${@:2}"; fi
        ;;
    *) exec "$python" -m pytest "$@" ;;
esac
