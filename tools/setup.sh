# Sourced by start.sh and test.sh: installs the Debian packages that are missing, builds into build/.
# Needs root (or sudo) only when something is missing.

cd "$(dirname "$0")/.." || exit 1

packages="gcc libc6-dev meson ninja-build pkg-config libcmocka-dev libstb-dev libjansson-dev libpcre2-dev libedit-dev libutf8proc-dev zlib1g-dev"
# They compile the engine of mgpt lab's pages (tools/lab/wasm/make_module.py), from Debian 12 on.
wasm_packages="clang lld wasi-libc libclang-rt-dev-wasm32"

# What installs the packages on this system, a command from tests/README.md.
other_packages() {
    for manager in dnf pacman apk brew; do
        command -v $manager >/dev/null || continue
        sed -n "s/.*\`\($manager [^\`]*\)\`.*/\1/p" tests/README.md
        return 0
    done
    echo 'install gcc, meson, ninja, pkg-config, cmocka, stb, jansson, pcre2, libedit, utf8proc and zlib with their headers'
}

# Without a right to install, without network, and on other systems: one line that says what to do.
install_missing() {
    command -v dpkg-query >/dev/null || {
        echo "$0: no Debian packages here; if a part is missing: $(other_packages)" >&2
        return 0
    }
    missing=
    for package in $packages; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    sudo=
    reason=
    if [ "$(id -u)" != 0 ]; then
        sudo=sudo
        { [ -t 0 ] && command -v sudo >/dev/null; } || sudo -n true 2>/dev/null || reason='neither root nor sudo'
    fi
    if [ -z "$reason" ]; then
        echo "installing:$missing" >&2
        # The options must be words of their own, and so must the packages.
        # shellcheck disable=SC2086
        reason=$({ $sudo apt-get update -qq; DEBIAN_FRONTEND=noninteractive \
            $sudo apt-get install -y -qq --no-install-recommends $missing; } 2>&1 >/dev/null) && return 0
        reason="apt-get: $(printf '%s\n' "$reason" | grep -m 1 '^E:' || echo failed)"
    fi
    echo "$0: cannot install packages ($reason); as root: apt-get update && apt-get install$missing" >&2
    return 1
}

# build DIRECTORY TARGET [MESON OPTIONS]: configures once, and again when Debian's packages have changed since: what
# was missing then may be there now. Then compiles what has changed. Debian's meson is asked for by path: another one on
# the PATH may belong to a Python that is not there tomorrow.
meson=/usr/bin/meson
[ -x $meson ] || meson=meson
build() {
    directory=$1
    target=$2
    shift 2
    if [ ! -f "$directory/build.ninja" ]; then
        $meson setup "$directory" "$@" >&2 || return 1
    elif [ -n "$(find /var/lib/dpkg/status -newer "$directory/build.ninja" 2>/dev/null)" ]; then
        $meson setup --reconfigure "$directory" >&2 || return 1
    fi
    ninja -C "$directory" "$target" >&2
}
