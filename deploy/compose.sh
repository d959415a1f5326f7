#!/usr/bin/env bash
# Builds and runs openskill with Docker Compose, 2 or later (`docker compose` or `docker-compose`).
#
#   deploy/compose.sh up         builds the images if needed, starts them, waits until calls are served
#   deploy/compose.sh build      builds the images
#   deploy/compose.sh secure     makes certificates and keys for OPENSKILL_SECURE=1, once
#   deploy/compose.sh scale N    changes the number of workers of a running stack
#   deploy/compose.sh down       stops and removes the containers (down --volumes: the data too)
#
# Environment:
#   WORKERS            workers to start (default: as many as there are now, else 2)
#   OPENSKILL_SECURE   1: TLS, a mesh of gateways and workers, and API keys
#   OPENSKILL_SECRETS  where their files are (default deploy/secrets)
#   COMPOSE_PROFILES   replicas: a second gateway and a proxy; observe: collector, Jaeger, Prometheus, Grafana
#   OPENSKILL_BINARY   a prebuilt binary to put into the images, with openskill-readers beside it; without one, cargo builds them there
#   OPENSKILL_GATEWAY_BINARY     another one for the gateway's image, which `make gateway` builds (default: the same)
#   OPENSKILL_PORT     port on 127.0.0.1 (default 8000)
#   WORKER_TARGET      worker-browser: workers with Chromium (default worker)
#   OPENSKILL_TAG      tag of the images openskill-gateway and openskill-worker (default dev)
#   BUILD_IMAGE, RUNTIME_IMAGE   base images (defaults rust:1.95-bookworm, debian:bookworm-slim)
#   COMPOSE_PROJECT_NAME         project name (default openskill)
#
# docker-compose.yml lists further ones.
#
# Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not available here (no engine, no compose, no base image).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
staged=$root/dist/openskill
staging=$root/dist/.staging
readonly READY_WITHIN_S=60
readonly compose_advice="Install Compose 2 or later: docker-compose-plugin, docker-compose-v2, or docker-compose of Debian 13."

export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-openskill}
export OPENSKILL_TAG=${OPENSKILL_TAG:-dev}
export OPENSKILL_PORT=${OPENSKILL_PORT:-8000}
export RUNTIME_IMAGE=${RUNTIME_IMAGE:-debian:bookworm-slim}
export WORKER_TARGET=${WORKER_TARGET:-worker}
OPENSKILL_SECRETS=$(realpath -m "${OPENSKILL_SECRETS:-$here/secrets}")
OPENSKILL_COMMIT=${OPENSKILL_COMMIT:-$(git -C "$root" log -1 --format='%H %cs' 2>/dev/null || true)}
export OPENSKILL_SECRETS OPENSKILL_COMMIT

say() { printf 'compose.sh: %s\n' "$*"; }
die() {
    local code=$1
    shift
    printf 'compose.sh: %s\n' "$@" >&2
    exit "$code"
}
usage() {
    printf 'usage: %s up | down [--volumes] | build | secure | scale N\n' "${0##*/}" >&2
    exit 2
}

# bounded SECONDS COMMAND...: where there is no timeout command, without the bound.
bounded() {
    if command -v timeout >/dev/null; then timeout "$@"; else "${@:2}"; fi
}

# --- What it needs ---------------------------------------------------------------------------

require_docker() {
    command -v docker >/dev/null ||
        die 3 "there is no docker command here." \
            "Install Docker Engine (Debian, Ubuntu: apt-get install docker.io) or Docker Desktop."
    local answer
    answer=$(bounded 20 docker version --format '{{.Server.Version}}' 2>&1) || {
        case $answer in
            *"permission denied"*) die 3 "you may not use the Docker engine. Run this with sudo, or join the group docker." ;;
            *) die 3 "the Docker engine does not answer. Start it (Linux: systemctl start docker)." "docker says: $answer" ;;
        esac
    }
}

require_compose() {
    require_docker
    if docker compose version >/dev/null 2>&1; then
        compose_command=(docker compose)
    elif command -v docker-compose >/dev/null; then
        compose_command=(docker-compose)
        case $(docker-compose version --short 2>/dev/null) in
            1.*) die 3 "this docker-compose is version 1, which cannot unmask /proc for the jail of skills." "$compose_advice" ;;
        esac
    else
        die 3 "Docker is here, Compose is not." "$compose_advice"
    fi
}

is_secure() { [ "${OPENSKILL_SECURE:-0}" = 1 ]; }
has_replicas() { [[ ,${COMPOSE_PROFILES:-}, == *,replicas,* ]]; }

compose() {
    local files=(-f "$here/docker-compose.yml")
    ! is_secure || files+=(-f "$here/docker-compose.secure.yml")
    "${compose_command[@]}" "${files[@]}" "$@"
}

# The flags with which a client command in a container reaches the gateway beside it.
gateway_flags() {
    if is_secure; then
        printf '%s\n' --url https://127.0.0.1:8000 --ca /run/secrets/ca.pem
    else
        printf '%s\n' --url http://127.0.0.1:8000
    fi
}

have_image() { docker image inspect "$1" >/dev/null 2>&1; }

# require_image IMAGE ADVICE: it is here, or it can be pulled.
require_image() {
    have_image "$1" && return
    say "pulling $1"
    local answer
    answer=$(docker pull "$1" 2>&1) || die 3 "the base image $1 is not here and cannot be pulled." "$2" "docker says: $answer"
}

# --- Build -----------------------------------------------------------------------------------

# Puts OPENSKILL_BINARY and OPENSKILL_GATEWAY_BINARY where the Dockerfile looks for them. Taken away again at the end, so that a
# later build from source does not find old binaries.
stage_binaries() {
    # A killed build leaves its process id and its binaries.
    if [ -f "$staging" ] && ! ps -p "$(cat "$staging")" >/dev/null 2>&1; then
        unstage_binaries
    fi
    [ -n "${OPENSKILL_BINARY:-}" ] || {
        [ -z "${OPENSKILL_GATEWAY_BINARY:-}" ] || die 2 "OPENSKILL_GATEWAY_BINARY needs OPENSKILL_BINARY: the worker has no other."
        return 0
    }
    [ ! -e "$staged" ] && [ ! -e "$staged-gateway" ] && [ ! -e "$staged-readers" ] ||
        die 2 "dist/ has openskill, openskill-gateway or openskill-readers already. Remove them, or leave OPENSKILL_BINARY unset to use them."
    trap unstage_binaries EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    mkdir -p "$root/dist"
    echo $$ >"$staging"
    stage OPENSKILL_BINARY "$staged"
    local readers
    readers=$(dirname "$OPENSKILL_BINARY")/openskill-readers
    [ -x "$readers" ] || die 2 "there is no $readers, which workers start: \`make build\` makes it beside openskill."
    stage readers "$staged-readers"
    [ -z "${OPENSKILL_GATEWAY_BINARY:-}" ] || stage OPENSKILL_GATEWAY_BINARY "$staged-gateway"
}

# stage VARIABLE TO
stage() {
    local binary=${!1}
    if [ ! -f "$binary" ] || [ ! -x "$binary" ]; then
        die 2 "$1=$binary is not an executable file."
    fi
    strip --strip-debug -o "$2" "$binary" 2>/dev/null || cp "$binary" "$2"
    chmod 0755 "$2"
}

unstage_binaries() {
    rm -f "$staged" "$staged-gateway" "$staged-readers" "$staging"
    rmdir "$root/dist" 2>/dev/null || true
}

build() {
    require_image "$RUNTIME_IMAGE" "Make one here:  sudo $here/make-base-image.sh $RUNTIME_IMAGE"
    stage_binaries
    local build_image=${BUILD_IMAGE:-rust:1.95-bookworm}
    if [ -f "$staged" ]; then
        say "building the images with the binary ${OPENSKILL_BINARY:-dist/openskill}"
        build_image=$RUNTIME_IMAGE # the build stage only copies, so it needs no Rust
    else
        require_image "$build_image" "Or build the binary yourself and name it: OPENSKILL_BINARY=target/dist/openskill $0 build"
        say "building the images from source, which takes minutes"
    fi
    local target
    # Not by Compose, which compresses what it sends to the engine, and restarts all after a build argument changed.
    for target in gateway "$WORKER_TARGET"; do
        docker build --file "$here/Dockerfile" --target "$target" --tag "openskill-$target:$OPENSKILL_TAG" \
            --build-arg "BUILD_IMAGE=$build_image" --build-arg RUNTIME_IMAGE --build-arg OPENSKILL_COMMIT "$root"
    done
}

have_images() { have_image "openskill-gateway:$OPENSKILL_TAG" && have_image "openskill-$WORKER_TARGET:$OPENSKILL_TAG"; }

# --- Certificates and keys -------------------------------------------------------------------

# Made in a container, so that the files get the user of the containers, who alone may read them.
secure() {
    [ ! -e "$OPENSKILL_SECRETS/ca.pem" ] || die 2 "$OPENSKILL_SECRETS has files already. To begin anew, remove them."
    have_images || build
    mkdir -p "$OPENSKILL_SECRETS"
    # shellcheck disable=SC2016  # the shell in the container fills these in
    docker run --rm --network none --user 0:0 --volume "$OPENSKILL_SECRETS:/out" --entrypoint sh \
        "openskill-$WORKER_TARGET:$OPENSKILL_TAG" -euc '
            umask 077
            openskill certs dev --dir /tmp/made --host gateway --host gateway-2 --host proxy >/dev/null
            openskill keys create --file /tmp/made/keys.toml --principal admin --skills "*" --destructive --admin \
                >/tmp/made/admin.key
            head -c 32 /dev/urandom | base64 >/tmp/made/mcp.key
            chown 10001:10001 /tmp/made/*
            chmod 0644 /tmp/made/*.pem
            chown "$0" /tmp/made/admin.key /tmp/made/client.key
            cp -p /tmp/made/* /out/
        ' "$(id -u):$(id -g)" || die 1 "certificates and keys could not be made."
    say "made certificates for development and a key for the principal admin, in $OPENSKILL_SECRETS"
    local port=$OPENSKILL_PORT
    ! has_replicas || port=${PROXY_PORT:-8080}
    say "try:  openskill skills --url https://localhost:$port --ca $OPENSKILL_SECRETS/ca.pem" \
        "--token-file $OPENSKILL_SECRETS/admin.key"
}

# --- Run -------------------------------------------------------------------------------------

check_count() {
    [[ $1 =~ ^[1-9][0-9]{0,3}$ ]] || die 2 "the number of workers must be 1 or more, not '$1'."
}

count_workers() { compose ps -q worker 2>/dev/null | wc -l | tr -d ' '; }

up() {
    local workers=${WORKERS:-}
    if [ -z "$workers" ]; then
        workers=$(count_workers)
        [ "$workers" -gt 0 ] || workers=2
    fi
    check_count "$workers"
    if [ -n "${OPENSKILL_BINARY:-}" ] || ! have_images; then
        build
    else
        say "using the images of the tag $OPENSKILL_TAG as they are ('build' makes new ones)"
    fi
    if is_secure && [ ! -e "$OPENSKILL_SECRETS/ca.pem" ]; then
        secure
    fi
    if [ "$(count_workers)" -eq 0 ]; then
        # The engine fills an empty volume for each container that is created with it, and fails if two are created at once.
        compose up --no-start --no-build --no-deps --scale worker=1 worker
    fi
    compose up -d --no-build --scale "worker=$workers"
    wait_until_ready
    local service=(gateway 8000)
    # Clients call the proxy, which is in front of both gateways.
    ! has_replicas || service=(proxy 8080)
    say "ready with $workers worker(s): $(is_secure && echo https || echo http)://$(compose port "${service[@]}")"
}

wait_until_ready() {
    local deadline=$((SECONDS + READY_WITHIN_S)) gateway flags
    gateway=$(compose ps -q gateway)
    mapfile -t flags < <(gateway_flags)
    while [ "$SECONDS" -lt "$deadline" ]; do
        bounded 5 docker exec "$gateway" openskill health "${flags[@]}" >/dev/null 2>&1 && return
        sleep 0.5
    done
    compose ps >&2 || true
    compose logs --no-color --tail=30 >&2 || true
    die 1 "the gateway was not ready within $READY_WITHIN_S s. Its last words are above; the containers are left as they are."
}

scale() {
    check_count "$1"
    [ "$(count_workers)" -gt 0 ] || die 1 "nothing runs here. Start it:  WORKERS=$1 $0 up"
    compose up -d --no-build --no-deps --no-recreate --scale "worker=$1" worker
    say "$(count_workers) worker(s)"
}

case ${1:-} in
    build | secure)
        [ $# -eq 1 ] || usage
        require_docker
        "$1"
        ;;
    up)
        [ $# -eq 1 ] || usage
        require_compose
        up
        ;;
    scale)
        [ $# -eq 2 ] || usage
        require_compose
        scale "$2"
        ;;
    down)
        require_compose
        # Of all profiles, whichever there are now.
        COMPOSE_PROFILES=replicas,observe compose down "${@:2}"
        ;;
    *) usage ;;
esac
