#!/usr/bin/env bash
# Run the whole test suite, or with --fast what takes no second; other arguments go to pytest.
set -euo pipefail

# shellcheck source=.ci/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/.ci/environment.sh"
make_environment test
cd "$root"

if [ "${1:-}" = --fast ]; then
    exec "$python" -m pytest -m "not slow" "${@:2}"
fi
exec "$python" -m pytest "$@"
