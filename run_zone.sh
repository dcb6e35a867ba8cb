#!/usr/bin/env bash
# Run zones from this checkout; the first run makes its environment in .venv.
set -euo pipefail

usage() {
    cat <<'TEXT'
./run_zone.sh [OPTION]...         one zone named nova with a few fake hosts, on loopback
./run_zone.sh process [OPTION]... the same, and each instance is a process of this machine
./run_zone.sh demo [OPTION]...    a tree of seven zones with 400 fake hosts; demo --help lists its options
./run_zone.sh --config-file FILE  one zone from a configuration

Options of one zone:
  --port PORT    port on loopback; 8790 by default
  --hosts N      number of hosts; 5 by default
  --dir FOLDER   folder of its configuration and state; zone-state in the checkout by default
  --help         this text

ZONESCHED_VENV=FOLDER puts the Python environment there instead of .venv in the checkout. With it and
--dir, the checkout may be read-only. PYTHON names the Python to use.
TEXT
}

# shellcheck source=.ci/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/.ci/environment.sh"

refuse() {
    local meant
    meant=$("$(find_python)" -c 'import difflib, sys
print(*difflib.get_close_matches(sys.argv[1], ("demo", "process", "--port", "--hosts", "--dir", "--config-file", "--help"), 1))' "$1")
    say "there is no '$1'${meant:+: did you mean $meant?}"
    usage >&2
    exit 2
}

for word in "$@"; do
    case $word in -h | --help) [ "${1:-}" = demo ] || { usage; exit; } ;; esac
done

case ${1:-} in
    help) usage; exit ;;
    "" | process | --port | --port=* | --hosts | --hosts=* | --dir | --dir=*) mode=zone ;;
    demo) mode=demo ;;
    --config-file | --config-file=* | --version) mode=configured ;;
    *) refuse "$1" ;;
esac

# A wrong number is refused before the environment is made, which takes a minute.
name=
for word in "$@"; do
    case $name in
        --port | --hosts)
            case $word in "" | *[!0-9]*) say "$name takes a whole number, not '$word'"; exit 2 ;; esac
            ;;
    esac
    name=$word
    case $word in --port=* | --hosts=*) name=${word%%=*}; word=${word#*=} ;; *) continue ;; esac
    case $word in "" | *[!0-9]*) say "$name takes a whole number, not '$word'"; exit 2 ;; esac
    name=
done

make_environment run

case $mode in
    zone)
        type=fake
        if [ "${1:-}" = process ]; then type=process; shift; fi
        exec "$python" -m zonesched.demo.single_zone --checkout "$root" --connection-type "$type" "$@"
        ;;
    demo) exec "$python" -m zonesched.demo.command --checkout "$root" "${@:2}" ;;
    configured) exec "$python" -m zonesched.serving.run_zone "$@" ;;
esac
