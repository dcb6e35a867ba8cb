# Sourced by run_zone.sh, run_tests.sh and .ci/run: `make_environment run` or `make_environment test` installs
# the package with its dependencies (test: and those of its tests and docs) into .venv in the checkout, or into
# $ZONESCHED_VENV, and sets `python` to its interpreter. It does so once, and again when the packaging, the
# pinned versions or the interpreter change.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=${ZONESCHED_VENV:-$root/.venv}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
python=$venv/bin/python

# Compiled modules are kept: without them each zone takes half as long again to start, and each test process twice.
unset PYTHONDONTWRITEBYTECODE

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

# A hash of everything that the environment depends on: when it changes, the environment is made anew.
fingerprint() {
    "$1" - "$root" <<'PY'
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
names = ("pyproject.toml", "setup.py", "constraints.txt", "constraints-run.txt")
parts = [sys.version, str(root), *((root / name).read_text() for name in names)]
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
    local kind=$1 base pinned=constraints-run.txt good="run test"
    if [ "$kind" = test ]; then
        pinned=constraints.txt
        good="test"
    fi
    # shellcheck disable=SC2086
    if is_current $good && has_libvirt "$kind"; then return; fi
    base=$(find_python) || exit 1
    # The lock belongs to descriptor 9, so it outlives the Python that takes it and ends with this shell.
    if ! { mkdir -p "$(dirname "$venv")" && : >>"$venv.lock"; } 2>/dev/null; then
        say "$(dirname "$venv") cannot be written: set ZONESCHED_VENV to a folder for the environment"
        exit 1
    fi
    exec 9>"$venv.lock"
    if ! "$base" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null; then
        say "waiting for another process that makes $venv"
        "$base" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
    fi
    # shellcheck disable=SC2086
    if ! is_current $good; then install_environment "$kind" "$base" "$pinned"; fi
    if ! has_libvirt "$kind"; then install_libvirt; fi
    exec 9>&-
}

# Tells whether the environment has all that it can have of libvirt. There are no wheels of its bindings, which are
# built against the machine's libvirt: where that has no headers, the tests of the driver `libvirt` are skipped.
has_libvirt() {
    local wanted
    if [ "$1" != test ] || ! wanted=$(libvirt_fingerprint); then return 0; fi
    [ "$(cat "$venv/libvirt.stamp" 2>/dev/null)" = "$wanted" ]
}

libvirt_fingerprint() {
    local version
    version=$(pkg-config --modversion libvirt 2>/dev/null) || return 1
    printf '%s %s\n' "$version" "$(cksum <"$root/constraints-libvirt.txt")"
}

install_libvirt() {
    say "building the bindings of libvirt $(pkg-config --modversion libvirt)"
    if "$python" -m pip install -q --disable-pip-version-check --require-hashes --no-deps --no-build-isolation \
        --force-reinstall -r "$root/constraints-libvirt.txt" >"$venv/pip.libvirt" 2>&1 9>&-; then
        libvirt_fingerprint >"$venv/libvirt.stamp"
    else
        say "they cannot be built, so tests of the driver libvirt are skipped; $venv/pip.libvirt says why"
    fi
}

install_environment() {
    local kind=$1 base=$2 pinned=$3
    say "making $venv with $("$base" --version); the first time takes a minute"
    if ! "$python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        "$base" -m venv --clear "$venv"
    fi
    link_checkout
    # Everything is pinned with the hashes of its files; the package itself is built by the setuptools among it.
    if ! { "$python" -m pip install --disable-pip-version-check --progress-bar off \
        --require-hashes --no-deps -r "$root/$pinned" 2>"$venv/pip.errors" 9>&- | show_progress &&
        "$python" -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation \
            -e "$venv/checkout" 2>>"$venv/pip.errors" 9>&-; }; then
        tail -n 20 "$venv/pip.errors" >&2
        say "the packages could not be installed: is a package index in reach?"
        exit 1
    fi
    fingerprint "$python" >"$venv/$kind.stamp"
}

# pip writes beside the sources that it installs, so it gets links to them: the checkout may be read-only.
link_checkout() {
    local name
    rm -rf "$venv/checkout"
    mkdir "$venv/checkout"
    for name in pyproject.toml setup.py README.md zonesched etc; do
        ln -s "$root/$name" "$venv/checkout/$name"
    done
}

# Reads what pip prints and says how far it is: on a terminal one line that is rewritten, else a line for every
# tenth package.
show_progress() {
    local line word name count=0 width
    width=$(stty size <&2 2>/dev/null | cut -d " " -f 2)
    while IFS= read -r line; do
        read -r word name _ <<<"$line"
        case $word in
            Collecting | Processing)
                name=${name##*/}
                count=$((count + 1)) line="package $count: ${name%%[-<>=!;\[~]*}"
                ;;
            Installing) [ "$name" = collected ] || continue; line="installing $count packages" ;;
            *) continue ;;
        esac
        if [ -t 2 ]; then
            printf '\r\033[K%.*s' "$((${width:-80} - 1))" "zonesched: $line" >&2
        elif [ "$word" = Installing ] || [ $((count % 10)) = 1 ]; then
            say "$line"
        fi
    done
    if [ -t 2 ]; then printf '\n' >&2; fi
}
