# Sourced by run_zone.sh, run_tests.sh and .ci/run: `make_environment run` or `make_environment test` sees to it
# that .venv in the checkout has the package and what it needs (test: and what its tests and docs need), and
# sets `python` to its interpreter. It does so once, and again when the packaging or the interpreter changes.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
python=$venv/bin/python

say() { printf 'zonesched: %s\n' "$*" >&2; }

find_python() {
    local candidate candidates=(python3 python3.14 python3.13 python3.12 python3.11)
    if [ -n "${PYTHON:-}" ]; then candidates=("$PYTHON"); fi
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    say "needs Python 3.11 or later with its venv module; set PYTHON to one if it is not on the PATH"
    return 1
}

# What the environment depends on: when this changes, it is made anew.
fingerprint() {
    "$1" - "$root" <<'PY'
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
parts = [sys.version, str(root), *((root / name).read_text() for name in ("pyproject.toml", "setup.py"))]
print(hashlib.sha256("\0".join(parts).encode()).hexdigest())
PY
}

is_current() {
    [ -x "$python" ] || return 1
    local wanted stamp
    wanted=$(fingerprint "$python" 2>/dev/null) || return 1
    for stamp in "$@"; do
        if [ "$(cat "$venv/$stamp.stamp" 2>/dev/null)" = "$wanted" ]; then return 0; fi
    done
    return 1
}

make_environment() {
    local kind=$1 base extras="" good="run test"
    if [ "$kind" = test ]; then
        extras="[test,docs]"
        good="test"
    fi
    # shellcheck disable=SC2086
    if is_current $good; then return; fi
    base=$(find_python) || exit 1
    # The lock belongs to descriptor 9, so it outlives the Python that takes it and ends with this shell.
    exec 9>"$root/.venv.lock"
    if ! "$base" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null; then
        say "waiting for another process that makes .venv"
        "$base" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
    fi
    # shellcheck disable=SC2086
    if ! is_current $good; then install_environment "$kind" "$base" "$extras"; fi
    exec 9>&-
}

install_environment() {
    local kind=$1 base=$2 extras=$3
    say "making .venv with $("$base" --version); the first time takes a minute"
    if ! "$python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        "$base" -m venv --clear "$venv"
    fi
    if ! "$python" -m pip install -qq --disable-pip-version-check -e "$root$extras" 9>&-; then
        say "the packages could not be installed: is a package index in reach?"
        exit 1
    fi
    fingerprint "$python" >"$venv/$kind.stamp"
}
