# Sourced by start.sh and test.sh: installs the Debian packages that are missing, builds into build/.
# Needs root (or sudo) only when something is missing.

cd "$(dirname "$0")/.." || exit 1

packages="gcc libc6-dev meson ninja-build pkg-config libcmocka-dev libstb-dev libjansson-dev libzip-dev libpcre2-dev libedit-dev libutf8proc-dev"

install_missing() {
    missing=
    for package in $packages; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    echo "installing:$missing" >&2
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    # The options must be words of their own, and so must the packages.
    # shellcheck disable=SC2086
    { $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
        $sudo apt-get install -y -qq --no-install-recommends $missing; } >&2
}

# build DIRECTORY TARGET [MESON OPTIONS]: configures once, then compiles what has changed. Debian's meson
# is asked for by path: another one on the PATH may belong to a Python that is not there tomorrow.
build() {
    directory=$1
    target=$2
    shift 2
    [ -f "$directory/build.ninja" ] || /usr/bin/meson setup "$directory" "$@" >&2 || return 1
    ninja -C "$directory" "$target" >&2
}
