#!/usr/bin/env bash
# Makes a Debian base image on a machine that cannot pull one.
#
#   sudo deploy/make-base-image.sh NAME[:TAG]      e.g. debian:bookworm-slim
#
# debootstrap builds a small root tree with Python, pip and ca-certificates, from the mirror that this
# machine's own apt uses; `docker import` turns it into an image. An image of that name which is
# already there is left alone.
#
# Environment:
#   SUITE      Debian release to install (default bookworm)
#   MIRROR     Debian mirror to use instead of the one apt uses
#   KEYRING    keyring that signs the mirror (default: debootstrap's own choice)
#   TMPDIR     where the temporary tree goes (default /var/tmp; about 600 MB)
#
# Exit codes: 0 done or already there, 1 failed, 2 wrong usage, 3 something it needs is not available.
set -euo pipefail

readonly PACKAGES=python3,python3-pip,ca-certificates

say() { printf 'make-base-image: %s\n' "$*"; }
die() {
    local code=$1
    shift
    printf 'make-base-image: %s\n' "$@" >&2
    exit "$code"
}
usage() {
    printf 'usage: %s NAME[:TAG]\n' "${0##*/}" >&2
    exit 2
}

# --- What it needs ---------------------------------------------------------------------------

require_engine() {
    command -v docker >/dev/null ||
        die 3 "there is no docker command here. Install Docker Engine first (Debian: apt-get install docker.io)."
    docker version --format '{{.Server.Version}}' >/dev/null 2>&1 ||
        die 3 "the Docker engine does not answer. Start it, or check that you may use its socket (docker version)."
}

require_root() {
    [ "$(id -u)" -eq 0 ] ||
        die 3 "building a root tree needs root. Run it with sudo, or copy the image from another machine" \
            "(there: docker save $image -o base.tar; here: docker load -i base.tar)."
}

require_debootstrap() {
    command -v debootstrap >/dev/null && return
    command -v apt-get >/dev/null ||
        die 3 "debootstrap is missing and there is no apt-get to install it with. Install debootstrap by hand."
    say "installing debootstrap"
    {
        apt-get update &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends debootstrap
    } >"$log" 2>&1 || fail_with_log "debootstrap could not be installed"
}

fail_with_log() {
    tail -n 25 "$log" >&2 || true
    die 1 "$1. Its last words are above."
}

# --- Where the packages come from ------------------------------------------------------------

# Prints "label|release|component|uri" for every source that apt knows and has fetched.
apt_sources() {
    command -v apt-get >/dev/null || return 0
    # shellcheck disable=SC2016  # apt fills these in, not the shell
    apt-get indextargets --format '$(LABEL)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)' \
        'Created-By: Packages' 2>/dev/null | sort -u
}

# first_uri LABEL RELEASE: the first matching source. RELEASE may be a pattern.
first_uri() {
    local label release component uri
    while IFS='|' read -r label release component uri; do
        # shellcheck disable=SC2053  # the right sides are patterns on purpose
        if [[ $label == $1 && $release == $2 && $component == main ]]; then
            printf '%s\n' "$uri"
            return
        fi
    done <<<"$sources"
}

find_mirror() {
    mirror=${MIRROR:-}
    security=
    sources=$(apt_sources)
    if [ -z "$sources" ] && [ -z "$mirror" ] && command -v apt-get >/dev/null; then
        say "apt has no package lists yet, fetching them"
        apt-get update >"$log" 2>&1 || fail_with_log "apt-get update failed"
        sources=$(apt_sources)
    fi
    if [ -z "$mirror" ]; then
        # The same release if apt has it. Any other Debian release lies on the same mirror.
        mirror=$(first_uri '*' "$suite")
        [ -n "$mirror" ] || mirror=$(first_uri Debian '*')
        security=$(first_uri '*' "$suite-security")
        [ -n "$security" ] || security=$(first_uri Debian-Security '*')
    fi
    [ -n "$mirror" ] ||
        die 3 "apt on this machine knows no Debian mirror. Name one: MIRROR=<url of a Debian mirror> $0 $image"
    case $mirror in
        http://* | https://* | file:/*) ;;
        *) die 3 "cannot use the apt source '${mirror%%:*}:...'. Name a mirror by http, https or file: MIRROR=<url> $0 $image" ;;
    esac
}

# apt may be told to use a proxy that the environment does not name. debootstrap asks only the environment.
use_apt_proxy() {
    command -v apt-config >/dev/null || return 0
    local APT_HTTP='' APT_HTTPS=''
    eval "$(apt-config shell APT_HTTP Acquire::http::Proxy APT_HTTPS Acquire::https::Proxy)"
    [ -z "$APT_HTTP" ] || [ "$APT_HTTP" = DIRECT ] || export http_proxy="$APT_HTTP"
    [ -z "$APT_HTTPS" ] || [ "$APT_HTTPS" = DIRECT ] || export https_proxy="$APT_HTTPS"
}

hide_password() { sed -E 's#//[^/@]*@#//***@#' <<<"$1"; }

# --- The tree --------------------------------------------------------------------------------

cleanup() {
    local code=$? mounted
    trap - EXIT
    if [ -n "${work:-}" ] && [ -d "$work" ]; then
        # A broken-off debootstrap can leave /proc and /sys mounted in the tree. Deepest first.
        awk -v tree="$work/" 'index($2, tree) == 1 { print $2 }' /proc/self/mounts | sort -r |
            while read -r mounted; do umount -l "$mounted" || true; done
        rm -rf --one-file-system "$work"
    fi
    exit "$code"
}

# dpkg reads this from the first package on: no fsync for a tree that is thrown away, and nothing
# unpacked that a container does not read. Copyright files stay.
write_dpkg_rules() {
    mkdir -p "$tree/etc/dpkg/dpkg.cfg.d"
    cat >"$tree/etc/dpkg/dpkg.cfg.d/slim" <<'RULES'
force-unsafe-io
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/groff/*
path-exclude=/usr/share/lintian/*
path-exclude=/usr/share/linda/*
path-exclude=/usr/share/locale/*
path-include=/usr/share/locale/locale.alias
RULES
}

write_apt_rules() {
    mkdir -p "$tree/etc/apt/apt.conf.d"
    cat >"$tree/etc/apt/apt.conf.d/90slim" <<'RULES'
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::GzipIndexes "true";
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
RULES
    # A mirror of frozen snapshots needs the same leniency inside as here.
    local option value
    for option in Acquire::Check-Valid-Until Acquire::Check-Date; do
        value=''
        eval "$(apt-config shell value "$option" 2>/dev/null || true)"
        [ -z "$value" ] || printf '%s "%s";\n' "$option" "$value" >>"$tree/etc/apt/apt.conf.d/90slim"
    done
}

bootstrap() {
    local options=(--variant=minbase "--include=$PACKAGES" --force-check-gpg)
    [ -z "${KEYRING:-}" ] || options+=("--keyring=$KEYRING")
    DEBIAN_FRONTEND=noninteractive LC_ALL=C \
        debootstrap "${options[@]}" "$suite" "$tree" "$mirror" >"$log" 2>&1 ||
        fail_with_log "debootstrap failed"
}

# The release as it was published misses the fixes since. Without them the image still works, so a
# failure here is said and not fatal.
upgrade() {
    local list=$tree/etc/apt/sources.list
    {
        printf 'deb %s %s main\n' "$mirror" "$suite"
        [ "$suite" = sid ] || printf 'deb %s %s-updates main\n' "$mirror" "$suite"
        [ -z "$security" ] || printf 'deb %s %s-security main\n' "$security" "$suite"
    } >"$list"
    [ -n "$security" ] || say "warning: no security mirror known, the image has no security updates"
    cp /etc/resolv.conf "$tree/etc/resolv.conf"
    chroot "$tree" /bin/sh -c '
        export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
        apt-get update && apt-get -y dist-upgrade' >"$log" 2>&1 || {
        tail -n 5 "$log" >&2
        say "warning: updates could not be installed, the image is the release as published"
    }
    case $mirror$security in
        *://*@*)
            say "the mirror's address holds a password, so the image gets no apt sources"
            : >"$list"
            ;;
    esac
}

strip_tree() {
    rm -rf "$tree"/var/lib/apt/lists/* "$tree"/var/cache/apt/* "$tree"/var/cache/debconf/*-old \
        "$tree"/var/cache/ldconfig/* "$tree"/var/lib/dpkg/*-old "$tree"/var/log/* "$tree"/tmp/* "$tree"/var/tmp/* \
        "$tree"/debootstrap "$tree"/etc/machine-id "$tree"/etc/hostname "$tree"/etc/resolv.conf
    # The first stage of debootstrap unpacks without dpkg and so without its rules.
    rm -rf "$tree"/usr/share/{man,info,groff,lintian,linda}/*
    find "$tree/usr/share/doc" -mindepth 1 ! -type d ! -name copyright -delete
    find "$tree/usr/share/doc" -mindepth 1 -type d -empty -delete
    find "$tree/usr/share/locale" -mindepth 1 ! -name locale.alias -delete
    # Python's compiled modules stay: without them every start of a skill compiles them again.
}

import() {
    tar --numeric-owner --one-file-system -C "$tree" \
        --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' -c . |
        docker import --message "Debian $suite by debootstrap, with $PACKAGES" \
            --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
            --change 'CMD ["bash"]' - "$image" >/dev/null
}

# --- The story -------------------------------------------------------------------------------

[ $# -eq 1 ] || usage
case $1 in '' | -*) usage ;; esac
readonly image=$1 suite=${SUITE:-bookworm}

require_engine
if docker image inspect "$image" >/dev/null 2>&1; then
    say "$image is there already, nothing to do"
    exit 0
fi
require_root

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
work=$(mktemp -d "${TMPDIR:-/var/tmp}/openskill-base.XXXXXX")
tree=$work/tree
log=$work/log
mkdir -m 0755 "$tree"

require_debootstrap
find_mirror
use_apt_proxy
write_dpkg_rules
write_apt_rules
say "building Debian $suite with $PACKAGES from $(hide_password "$mirror")"
bootstrap
say "installing updates"
upgrade
say "stripping caches, documentation and locales"
strip_tree
say "importing $(du -sh --one-file-system "$tree" | cut -f1) as $image"
import
say "done in ${SECONDS} s: $image ($(docker image inspect --format '{{.Id}}' "$image" | cut -c8-19))"
