#!/bin/sh
# usage: aarch64_root.sh FOLDER [PACKAGE...]
# Unpacks packages of Debian for arm64, with all that they need, in FOLDER, and writes FOLDER/aarch64.ini for meson setup
# --cross-file: gcc-aarch64-linux-gnu compiles, qemu-user runs. Without PACKAGE: what mgpt is compiled with. No machine needs
# to be set up for a second architecture. apt-get downloads from deb.debian.org and checks the signatures. Packages that
# are also installed on this machine have its versions, or nothing is made.
set -eu
[ $# -ge 1 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- libc6-dev libstb-dev libjansson-dev libpcre2-dev libedit-dev libutf8proc-dev zlib1g-dev
host=aarch64-linux-gnu
for need in $host-gcc:gcc-$host qemu-aarch64:qemu-user dpkg-deb:dpkg; do
    command -v "${need%%:*}" >/dev/null || { echo "aarch64_root.sh: ${need%%:*} is missing: apt-get install ${need#*:}" >&2; exit 2; }
done
[ ! -e "$folder/$host.ini" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work"

# Lists and a state of its own: nothing is installed there.
. /etc/os-release
mkdir -p lists/partial cache/archives/partial
: >status
for part in "debian $VERSION_CODENAME" "debian $VERSION_CODENAME-updates" "debian-security $VERSION_CODENAME-security"; do
    echo "deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/$part main"
done >sources.list
options="-qq -y -o Dir::Etc::sourcelist=$work/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$work/lists
    -o Dir::State::status=$work/status -o Dir::Cache=$work/cache -o Debug::NoLocking=1 -o APT::Sandbox::User=
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Install-Recommends=false -o Acquire::Languages=none"
# shellcheck disable=SC2086 # options are words
{ apt-get $options update && apt-get $options --download-only install "$@"; } >apt.log 2>&1 || {
    cat apt.log >&2
    echo "aarch64_root.sh: apt-get cannot download packages for arm64" >&2
    exit 5
}

# The version without the number of a build that has the same source.
version_of() {
    sed 's/+b[0-9]*$//'
}
for name in "$@"; do
    here=$(dpkg-query -W -f '${Version}\n' "$name" 2>/dev/null | version_of)
    there=$(dpkg-deb -f cache/archives/"$name"_*.deb Version | version_of)
    [ -z "$here" ] || [ "$here" = "$there" ] || {
        echo "aarch64_root.sh: $name is $here on this machine and $there for arm64: apt-get install $name" >&2
        exit 5
    }
done
for package in cache/archives/*.deb; do
    dpkg-deb -x "$package" "$folder"
done

cat >"$folder/$host.ini" <<END
[binaries]
c = ['$host-gcc', '--sysroot=$folder', '-B$folder/usr/lib/$host', '-B$folder/lib/$host']
ar = '$host-ar'
strip = '$host-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', '$folder']

[properties]
runner = ['qemu-aarch64', '-L', '$folder']
sys_root = '$folder'
pkg_config_libdir = ['$folder/usr/lib/$host/pkgconfig', '$folder/usr/share/pkgconfig']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
