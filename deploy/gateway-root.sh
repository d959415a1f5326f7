#!/bin/sh
# Runs in the build of deploy/Dockerfile, in the runtime image.
#
#   gateway-root.sh BINARY ROOT      makes the root directory of a gateway's image
#
# The binary, the libraries that it names, and what the C library reads: the resolver's order, the user, the authorities.
set -eu

binary=$1
root=$2

put() {
    mkdir -p "$root$(dirname "$2")"
    cp -L "$1" "$root$2"
}

put "$binary" /usr/local/bin/openskill
ldd "$binary" | grep -o '/[^ ]*' | while read -r library; do
    put "$library" "$library"
done
if [ ! -e /etc/ssl/certs/ca-certificates.crt ]; then
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates
fi
put /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
echo 'openskill:x:10001:10001::/var/lib/openskill:/nonexistent' >"$root/etc/passwd"
echo 'openskill:x:10001:' >"$root/etc/group"
# Where conversations and recorded calls go if a volume is mounted here.
mkdir -p "$root/tmp" "$root/var/lib/openskill"
chmod 1777 "$root/tmp"
chown 10001:10001 "$root/var/lib/openskill"
# A library that is missing, or a newer libc than this image has, fails here and not in production.
chroot "$root" /usr/local/bin/openskill --version
