#!/usr/bin/env bash
# Run zones from this checkout; the first run makes its environment in .venv.
set -euo pipefail

usage() {
    cat <<'TEXT'
./run_zone.sh                     one zone named nova with a few fake hosts, on loopback
./run_zone.sh process             the same, and each instance is a process of this machine
./run_zone.sh --config-file FILE  one zone from a configuration
./run_zone.sh demo [OPTION]...    a tree of seven zones with 400 fake hosts; demo --help lists the options
TEXT
}

case ${1:-} in
    -h | --help | help)
        usage
        exit
        ;;
esac

# shellcheck source=.ci/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/.ci/environment.sh"
make_environment run

case ${1:-} in
    "") exec "$python" -m zonesched.demo.single_zone "$root" ;;
    process) exec "$python" -m zonesched.demo.single_zone "$root" --connection-type process ;;
    demo) exec "$python" -m zonesched.demo.command --checkout "$root" "${@:2}" ;;
    *) exec "$python" -m zonesched.serving.run_zone "$@" ;;
esac
