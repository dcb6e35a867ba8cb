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

# refuse WORD MEANT...: end with the nearest of what may have been meant.
refuse() {
    local meant
    meant=$("$(find_python)" -c 'import difflib, sys
print(*difflib.get_close_matches(sys.argv[1], sys.argv[2:], 1))' "$@")
    say "there is no '$1'${meant:+: did you mean $meant?}"
    usage >&2
    exit 2
}

# check_words VALUED FLAGS WORD...: refuse a wrong word before the environment is made, which takes a minute.
check_words() {
    local valued=$1 flags=$2 name value
    shift 2
    while [ $# -gt 0 ]; do
        name=${1%%=*}
        case " $valued " in
            *" $name "*)
                case $1 in
                    *=*) value=${1#*=} ;;
                    *)
                        if [ $# = 1 ]; then say "$name needs a value"; exit 2; fi
                        value=$2
                        shift
                        ;;
                esac
                case $name:$value in
                    --dir:*) ;;
                    *: | *:*[!0-9]*) say "$name takes a whole number, not '$value'"; exit 2 ;;
                esac
                ;;
            # shellcheck disable=SC2086
            *) case " $flags " in *" $1 "*) ;; *) refuse "$1" $valued $flags ;; esac ;;
        esac
        shift
    done
}

for word in "$@"; do
    case $word in -h | --help) [ "${1:-}" = demo ] || { usage; exit; } ;; esac
done

zone_options="--port --hosts --dir"
case ${1:-} in
    help) usage; exit ;;
    "" | --port | --port=* | --hosts | --hosts=* | --dir | --dir=*)
        mode=zone
        check_words "$zone_options" "" "$@"
        ;;
    process)
        mode=zone
        check_words "$zone_options" "" "${@:2}"
        ;;
    demo)
        mode=demo
        check_words "--hosts --instances --base-port --dir" "--once --help" "${@:2}"
        ;;
    --config-file | --config-file=* | --version) mode=configured ;;
    # shellcheck disable=SC2086
    *) refuse "$1" demo process $zone_options --config-file --help ;;
esac

make_environment run

case $mode in
    zone)
        type=fake
        if [ "${1:-}" = process ]; then type=process; shift; fi
        exec "$python" -m zonesched.demo.single_zone --checkout "$root" --connection-type "$type" "$@"
        ;;
    demo) exec "$python" -m zonesched.demo.command --checkout "$root" "${@:2}" ;;
    configured) exec "$python" -m zonesched.serving "$@" ;;
esac
