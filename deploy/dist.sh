#!/usr/bin/env bash
# Makes the files of a release, for machines that have neither Rust nor this checkout.
#
#   deploy/dist.sh [BINARY]      default: target/dist/openskill
#
# Beside it lie openskill-readers and, for the gateway's image, openskill-gateway, the program without a worker. Without
# the latter, that image has all of the program.
#
# Writes to dist/: a tarball, a wheel with the program, those of the Python packages, images of gateway and worker, debug
# symbols, the bill of materials (CycloneDX), RELEASE.md and SHA256SUMS. Without a container engine, it leaves out
# the images. The same commit, binary and tools give the same bytes, except for the images.
#
# Environment:
#   DIST_DIR       where to write (default dist)
#   PYTHON         the Python that builds the wheels of the Python packages (default python3)
#   OFFLINE=1      build them with the flit_core that PYTHON has, instead of one from the package index
#   IMAGES=0       leave out the images
#   OPENSKILL_TAG  tag of the images (default VERSION); compose.sh, which builds them, lists further variables
#
# Exit codes: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(realpath -m "${DIST_DIR:-$root/dist}")
python=${PYTHON:-python3}

say() { printf 'dist.sh: %s\n' "$*"; }
die() {
    local code=$1
    shift
    printf 'dist.sh: %s\n' "$@" >&2
    exit "$code"
}

[ $# -le 1 ] || { printf 'usage: %s [BINARY]\n' "${0##*/}" >&2; exit 2; }
binary=$(realpath -m "${1:-$root/target/dist/openskill}")
readers=$(dirname "$binary")/openskill-readers
for program in "$binary" "$readers"; do
    [ -x "$program" ] || die 2 "$program is not an executable file. Build it: make build PROFILE=dist"
done
for tool in objcopy readelf tar gzip sha256sum; do
    command -v "$tool" >/dev/null || die 1 "$tool is missing. Debian: apt-get install binutils tar gzip coreutils"
done

said=$("$binary" --version)
version=$(cut -d' ' -f2 <<<"$said")
# The time of all files: that of the commit, or of the changelog where there is no checkout.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/CHANGELOG.md")}
export SOURCE_DATE_EPOCH
suffix=$version-linux-$(uname -m)
name=openskill-$suffix
tag=${OPENSKILL_TAG:-$version}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/$name

# put FOLDER TO: copies the files that git has, or all where there is no checkout.
put() {
    local files
    files=$(git -C "$root/$1" ls-files 2>/dev/null || true)
    [ -n "$files" ] || files=$(cd "$root/$1" && find . -type f ! -path '*/__pycache__/*')
    mkdir -p "$2"
    tar -C "$root/$1" -c --files-from=- <<<"$files" | tar -C "$2" -x
}

# --- The binary, and its symbols apart -------------------------------------------------------
# They find each other by build id and by the checksum in .gnu_debuglink, as gdb and perf expect.
install -d "$out" "$tree/bin" "$tree/share/openskill" "$tree/wheels"
# A run that fails leaves nothing that looks like a whole release.
rm -f "$out/RELEASE.md" "$out/SHA256SUMS" "$out/openskill_cli-$version-"*"_$(uname -m).whl" \
    "$out/openskill-"{gateway,worker}"-$suffix.tar.gz"
objcopy --only-keep-debug --compress-debug-sections=zlib "$binary" "$work/$name.debug"
(cd "$work" && objcopy --strip-all --add-gnu-debuglink="$name.debug" "$binary" "$tree/bin/openskill")
objcopy --strip-all "$readers" "$tree/bin/openskill-readers"
chmod 0755 "$tree/bin/"*

# --- What belongs to it ----------------------------------------------------------------------
put worker/skills "$tree/share/openskill/skills"
rm -rf "$tree/share/openskill/skills/"{.gitignore,tests,pyproject.toml}
put data "$tree/share/openskill/data"
cp -r "$root/deploy/systemd" "$tree/systemd"
install -m 0755 "$root/deploy/install.sh" "$tree/install.sh"
# Starts the images of this release, and builds none.
compose=$tree/share/openskill/compose
install -d "$compose"
sed -e "s/OPENSKILL_TAG:-dev/OPENSKILL_TAG:-$version/; s/(default dev)/(default $version)/" \
    -e '/^#   BUILD_IMAGE/d; /^x-build/,/^$/d; /^    build:$/,/^      target/d; /^# docker-compose.secure/,/^#$/d; s/ Usually started by .*//' \
    "$root/deploy/docker-compose.yml" >"$compose/docker-compose.yml"
! grep -nE 'build|BUILD_IMAGE|secure' "$compose/docker-compose.yml" || die 1 "the Compose file of the release names what it lacks."
cp "$root/deploy/seccomp.json" "$compose/"
put deploy/proxy "$compose/proxy"
put deploy/observability "$compose/observability"
cp "$root/LICENSE" "$root/CHANGELOG.md" "$tree/"
sed "s/VERSION-linux-ARCH/$suffix/" "$root/deploy/release.md" >"$tree/README.md"

install -d "$tree/completions"
# By its name and not by its path: that is what the scripts will call.
for shell in bash zsh fish; do
    PATH="$tree/bin:$PATH" openskill completions "$shell" >"$tree/completions/openskill.$shell"
done

offline=()
[ -z "${OFFLINE:-}" ] || offline=(--no-index --no-build-isolation)
for package in worker/skills proto/python; do
    # A copy: building leaves folders beside the sources.
    put "$package" "$work/source"
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps "${offline[@]}" \
        --wheel-dir "$tree/wheels" "$work/source"
    rm -rf "$work/source"
done

"$root/deploy/sbom.py" >"$tree/openskill.cdx.json"

# --- What is published -----------------------------------------------------------------------
chmod -R u=rwX,go=rX "$tree"
(cd "$tree" && find . -type f ! -name SHA256SUMS | sort | xargs sha256sum >SHA256SUMS)
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
    -C "$work" -c "$name" | gzip -n >"$out/$name.tar.gz"
mv "$work/$name.debug" "$out/$name.debug"
cp "$tree/openskill.cdx.json" "$out/$name.cdx.json"
cp "$tree/wheels/"*.whl "$out/"
"$root/deploy/wheel.py" "$tree" "$version" "$out" >/dev/null

# Exit code 3 of compose.sh: it said what is missing here.
if [ "${IMAGES:-1}" != 0 ]; then
    [ ! -x "$binary-gateway" ] || export OPENSKILL_GATEWAY_BINARY="${OPENSKILL_GATEWAY_BINARY:-$binary-gateway}"
    status=0
    OPENSKILL_BINARY=$binary OPENSKILL_TAG=$tag WORKER_TARGET=worker "$root/deploy/compose.sh" build || status=$?
    case $status in
        0)
            for image in gateway worker; do
                docker save "openskill-$image:$tag" | gzip -n >"$work/$image.tar.gz"
                mv "$work/$image.tar.gz" "$out/openskill-$image-$suffix.tar.gz"
            done
            ;;
        3) say "left out the images: see above" ;;
        *) die 1 "the images could not be built." ;;
    esac
fi

"$root/deploy/release.py" "$version" "$out"
say "wrote the files of $said to $out"
