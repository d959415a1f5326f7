#!/bin/sh
# Runs in the build of deploy/Dockerfile, in the runtime image, whose root directory becomes that of a worker's image.
#
#   worker-root.sh            Python for the skills, pip for their packages, the authorities for calls to the outside
#   worker-root.sh browser    Chromium and fonts too
#
# It makes the user, and removes what only installs packages of the system. A base that has Python, pip and the authorities needs
# no network for the first.
set -eu

# install PACKAGE...
install() {
    [ $# -gt 0 ] || return 0
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

missing=
if [ "${1:-}" = browser ]; then
    command -v chromium >/dev/null || missing="chromium fonts-dejavu-core fonts-noto-cjk"
fi
command -v python3 >/dev/null || missing="$missing python3"
python3 -c 'import pip' 2>/dev/null || missing="$missing python3-pip"
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing="$missing ca-certificates"
# shellcheck disable=SC2086  # words on purpose
install $missing
groupadd --gid 10001 openskill
useradd --uid 10001 --gid 10001 --no-create-home --home-dir /app --shell /usr/sbin/nologin openskill

# Mount points: a volume that is new gets their owner and mode. What skills could change here would run as the worker, or as other
# skills.
mkdir -p /app/tools /app/environments /app/skills
chown 10001:10001 /app/tools /app/environments
chmod 0700 /app/tools

# The packages of dpkg and apt, and what nothing else uses. Other bases than Debian have other package managers, and keep them.
command -v dpkg >/dev/null || exit 0
rm -rf /var/lib/apt /var/cache/apt /var/cache/debconf
# Each container would have the same.
rm -f /etc/machine-id
# Chromium uses many of the others.
[ "${1:-}" != browser ] || exit 0
rm -rf /usr/lib/*/gconv
for package in apt libapt-pkg6.0 debian-archive-keyring gpgv adduser e2fsprogs logsave libext2fs2 libss2 debconf perl-base \
    libgnutls30 libhogweed6 libnettle8 libp11-kit0 libtasn1-6 libidn2-0 libunistring2 login passwd mount; do
    dpkg --force-depends --force-remove-essential --force-remove-protected --purge "$package" >/dev/null 2>&1 || true
done
# The list of packages stays: scanners look for vulnerabilities with it.
rm -rf /var/lib/dpkg/info /usr/bin/dpkg* /usr/lib/dpkg /usr/share/dpkg /usr/share/debconf /usr/share/perl5
rm -f /var/lib/dpkg/*-old /var/lib/dpkg/available /var/log/dpkg.log /var/log/apt/* /var/log/alternatives.log
python3 -c 'import ssl, json, sqlite3, subprocess, venv, pip'
