#!/bin/sh
# Installs openskill from the folder that this script is in. Run it again to update.
#
#   sudo ./install.sh [--prefix DIR]     default: /usr/local
#
# Puts the program, the skills, completions and, where there is systemd, its units in their places, and makes the user
# `openskill` that they run as. It starts nothing, and overwrites no settings.
set -eu

prefix=/usr/local
case ${1:-} in
    '') ;;
    --prefix) prefix=${2:?"--prefix needs a directory"} ;;
    *) echo "usage: $0 [--prefix DIR]" >&2; exit 2 ;;
esac
case $prefix in /*) ;; *) echo "install.sh: the prefix must be an absolute path, not '$prefix'" >&2; exit 2 ;; esac
[ "$(id -u)" -eq 0 ] || { echo "install.sh: run it as root" >&2; exit 1; }
cd "$(dirname "$0")"
sha256sum --quiet --check SHA256SUMS || { echo "install.sh: these files are not those of the release" >&2; exit 1; }

# A program that runs cannot be written, but it can be replaced.
put() { mkdir -p "$(dirname "$2")"; cp "$1" "$2.new"; mv -f "$2.new" "$2"; }
put bin/openskill "$prefix/bin/openskill"
put bin/openskill-readers "$prefix/bin/openskill-readers"
put completions/openskill.bash "$prefix/share/bash-completion/completions/openskill"
put completions/openskill.zsh "$prefix/share/zsh/site-functions/_openskill"
put completions/openskill.fish "$prefix/share/fish/vendor_completions.d/openskill.fish"
mkdir -p "$prefix/share/openskill"
rm -rf "$prefix/share/openskill/skills.new"
cp -r share/openskill/skills "$prefix/share/openskill/skills.new"
rm -rf "$prefix/share/openskill/skills"
mv "$prefix/share/openskill/skills.new" "$prefix/share/openskill/skills"

if ! id openskill >/dev/null 2>&1; then
    useradd --system --home-dir /var/lib/openskill --no-create-home --shell /usr/sbin/nologin openskill
fi
# The data of skills. It is filled once, and never touched again.
if [ ! -e /var/lib/openskill/data ]; then
    mkdir -p /var/lib/openskill
    cp -r share/openskill/data /var/lib/openskill/data
    chown -R openskill:openskill /var/lib/openskill
fi
# Settings, which may have secrets.
install -d -m 0750 -g openskill /etc/openskill
for name in gateway worker; do
    [ -e "/etc/openskill/$name.env" ] || install -m 0640 -g openskill "systemd/$name.env" "/etc/openskill/$name.env"
done
if command -v systemctl >/dev/null; then
    for unit in systemd/*.service; do
        sed "s#/usr/local/#$prefix/#g" "$unit" >"/etc/systemd/system/$(basename "$unit")"
    done
    [ ! -d /run/systemd/system ] || systemctl daemon-reload
    echo "installed. Start it: systemctl enable --now openskill-gateway openskill-worker@1 openskill-worker@2"
else
    echo "installed. Start it: openskill up --skills-dir $prefix/share/openskill/skills"
fi
