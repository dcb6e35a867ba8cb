# Sourced after .ci/environment.sh by scripts that need servers: each `start_*` starts a private one, on a free port and
# in its own folder, and exports its address. All of them end with the shell that sourced this file.
#
# As root, servers run as `nobody`: PostgreSQL refuses to run as root. A missing server is
# installed where that can be done (apt-get as root); else the shell ends with the reason.

services_folder=$(mktemp -d "${TMPDIR:-/tmp}/zonesched-services-XXXXXX")
stops=()

stop_services() {
    local stop
    for stop in ${stops[@]+"${stops[@]}"}; do "$stop" || true; done
    rm -rf "$services_folder"
}
trap stop_services EXIT

# unprivileged FOLDER COMMAND...: run it in the folder, as a user that is not root.
unprivileged() {
    local folder=$1
    shift
    if [ "$(id -u)" != 0 ]; then
        (cd "$folder" && HOME=$folder "$@")
    else
        (cd "$folder" && HOME=$folder setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups "$@")
    fi
}

# own_folder NAME: a folder that such a command may write to.
own_folder() {
    local folder=$services_folder/$1
    chmod 755 "$services_folder"
    mkdir -p "$folder"
    if [ "$(id -u)" = 0 ]; then chown nobody "$folder"; fi
    printf '%s\n' "$folder"
}

free_port() {
    "$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# program NAME FOLDER...: its path, from the PATH or the folders (the last one that has it).
program() {
    local name=$1 folder found
    shift
    found=$(command -v "$name" || true)
    for folder in "$@"; do
        if [ -z "$found" ] && [ -x "$folder/$name" ]; then found=$folder/$name; fi
    done
    [ -n "$found" ] && printf '%s\n' "$found"
}

# install PACKAGE...: from the distribution, where we may.
install() {
    say "installing $*"
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        say "$* is not installed, and cannot be installed here: install it, or run this as root on Debian"
        return 1
    fi
    (apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@") \
        >"$services_folder/apt.log" 2>&1 || { tail -n 20 "$services_folder/apt.log" >&2; return 1; }
}

# need_postgresql: install PostgreSQL where it is missing.
need_postgresql() {
    program initdb /usr/lib/postgresql/*/bin >/dev/null || install postgresql || exit 1
}

# Exports ZONESCHED_TEST_DATABASE_URL: of a server on which tests may make databases. Nothing waits for the disk.
# It orders text as people do, so that nothing comes to rely on the order of bytes.
start_postgresql() {
    local port initdb
    need_postgresql
    initdb=$(program initdb /usr/lib/postgresql/*/bin)
    pg_ctl=$(program pg_ctl /usr/lib/postgresql/*/bin)
    pg_folder=$(own_folder postgresql)
    port=$(free_port)
    unprivileged "$pg_folder" "$initdb" -D "$pg_folder/data" -U zonesched -A trust --no-sync -E UTF8 \
        --locale=C.UTF-8 --locale-provider=icu --icu-locale=en-US >"$services_folder/initdb.log" 2>&1 ||
        { cat "$services_folder/initdb.log" >&2; exit 1; }
    cat >>"$pg_folder/data/postgresql.conf" <<CONF
port = $port
listen_addresses = '127.0.0.1'
unix_socket_directories = '$pg_folder'
max_connections = 800
shared_buffers = 128MB
fsync = off
full_page_writes = off
synchronous_commit = off
wal_level = minimal
max_wal_senders = 0
jit = off
CONF
    stops+=(stop_postgresql)
    unprivileged "$pg_folder" "$pg_ctl" -D "$pg_folder/data" -l "$pg_folder/log" -w start >/dev/null ||
        { cat "$pg_folder/log" >&2; exit 1; }
    export ZONESCHED_TEST_DATABASE_URL="postgresql+psycopg://zonesched@/postgres?host=$pg_folder&port=$port"
}

stop_postgresql() {
    unprivileged "$pg_folder" "$pg_ctl" -D "$pg_folder/data" -m immediate stop >/dev/null
}

# missing_packages: those of the servers that tests start by themselves, and of libvirt with its QEMU driver, of which
# no daemon is started.
missing_packages() {
    program initdb /usr/lib/postgresql/*/bin >/dev/null || printf '%s\n' postgresql
    program rabbitmq-server /usr/lib/rabbitmq/bin >/dev/null || printf '%s\n' rabbitmq-server
    program redis-server >/dev/null || printf '%s\n' redis-server
    program chromium >/dev/null || printf '%s\n' chromium
    # For promtool.
    program promtool >/dev/null || printf '%s\n' prometheus
    if ! { program qemu-system-x86_64 && program qemu-img && program gcc && pkg-config --exists libvirt &&
        compgen -G "/usr/lib*/*/libvirt/connection-driver/libvirt_driver_qemu.so"; } >/dev/null 2>&1; then
        printf '%s\n' libvirt-daemon libvirt-daemon-driver-qemu qemu-system-x86 qemu-utils libvirt-dev pkg-config gcc
    fi
}

# install_servers: what is missing of them, in one go.
install_servers() {
    local missing
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} = 0 ] || install "${missing[@]}"
}

# From now on no test of these servers is left out; libvirt's bindings come into the tests' environment.
need_servers() {
    # Libvirt's own user, which only the package of the daemon as a service makes.
    if [ "$(id -u)" = 0 ] && ! getent passwd libvirt-qemu >/dev/null; then
        useradd --system --user-group --no-create-home --shell /usr/sbin/nologin libvirt-qemu
    fi
    make_environment test
    export ZONESCHED_TEST_SERVERS=required
}
