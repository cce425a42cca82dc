#!/bin/sh
# Both commands of README.md on fresh machines: makes a root of each Debian, clones the repository
# into it and does what README says there. Needs root, debootstrap, a registry of Debian's packages and of Python's.
#
# shellcheck disable=SC2016,SC2046,SC2181,SC2317  # the root's variables; words; codes of subshells; functions that step calls
#
# usage: tests/fresh/roots.sh [-q] FOLDER [bookworm|trixie...]    (both; roots that are in FOLDER are made anew)
#   -q  leaves tools/test.sh out: minutes instead of half an hour
#
# Per root: what start.sh prints to a user without sudo when packages are missing; start.sh as root, then as that user,
# in a clone of theirs, with README's commands for a page of the lab, a checkpoint of nanoGPT and Python;
# tools/test.sh as root, where no test may fail and each skipped one names a reason; README's
# program with README's command for gcc, clang and gcc 11 where Debian has them; self-checks. Then the wheel that each
# Debian made is installed on the other one, or refused by pip where the C library is older than the wheel needs. What the models write and all hashes are those of this machine.
# apt and pip are set up as on this machine. FOLDER/ROOT.log has all output, stdout a line per step with its seconds.
set -eu
quick=
[ "${1-}" != -q ] || { quick=1; shift; }
folder=$(realpath -m "${1:?FOLDER}")
shift
[ $# -gt 0 ] || set -- bookworm trixie
source=$(realpath "$(dirname "$0")/../..")
{ command -v debootstrap && [ "$(id -u)" = 0 ]; } >/dev/null || { echo "skipped: needs root and debootstrap"; exit 77; }
mgpt=${MGPT:-$source/build/tools/mgpt}
[ -x "$mgpt" ] || { echo "$mgpt: no program to compare with: tools/start.sh first"; exit 1; }
mkdir -p "$folder"
failed=0
release=
unmount() { # FOLDER: nothing of this machine may be mounted in a root that is removed
    sed -n "s|^[^ ]* \\($1/[^ ]*\\) .*|\\1|p" /proc/mounts | sort -r | xargs -r umount
}
trap 'unmount "$folder"' EXIT
trap 'exit 1' INT TERM

# step WHAT COMMAND...: runs it, its output is in the log and in $folder/out; prints a line.
step() {
    what=$1 began=$(date +%s) verdict=ok
    shift
    set +e # a subshell that is part of a condition would go on after an error
    (set -e && "$@") >"$folder/out" 2>&1 </dev/null
    [ $? -eq 0 ] || verdict='not ok'
    set -e
    { echo "== $release: $what"; cat "$folder/out"; } >>"$folder/$release.log"
    [ "$verdict" = ok ] || { failed=1; tail -n 20 "$folder/out" | sed 's/^/#   /'; }
    echo "$verdict $release: $what ($(($(date +%s) - began)) s)"
}

# inside USER COMMAND: a shell command in the root, in the user's clone once there is one. The machine's settings of pip
# and of certificates come along.
inside() {
    user=$1 home=/root
    [ "$user" = root ] || home=/home/$user
    set -- "cd $home && { [ ! -d mgpt ] || cd mgpt; } && $2"
    chroot --userspec="$user" "$folder/$release" env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME="$home" \
        USER="$user" LC_ALL=C.UTF-8 $(env | grep -E '^(PIP_[A-Z_]*|https?_proxy|HTTPS?_PROXY|no_proxy|SSL_CERT_FILE)=[^ ]*$') \
        sh -c "$1"
}

# How this machine reaches packages: the address of Debian's archive, apt's settings, certificates.
mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] *\)\{0,1\}\([^ ]*\) .*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    grep -m 1 'debian/\{0,1\}$' || true)
settings() {
    cp /etc/resolv.conf "$folder/$release/etc/"
    find /etc/apt/apt.conf /etc/apt/apt.conf.d -type f 2>/dev/null |
        grep -v 'docker\|autoremove\|packagekit\|appstream\|debconf' | xargs -r cp -t "$folder/$release/etc/apt/apt.conf.d/"
}
certificates() {
    inside root 'apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates git'
    cp /etc/ssl/certs/ca-certificates.crt "$folder/$release/etc/ssl/certs/"
}
make_root() {
    root=$folder/$release
    unmount "$root"
    rm -rf --one-file-system "$root"
    debootstrap --variant=minbase "$release" "$root" ${mirror:+"$mirror"}
    settings
    for part in proc dev dev/pts dev/shm; do mount --bind "/$part" "$root/$part" && mount --make-private "$root/$part"; done
    certificates
    inside root 'useradd -m reader'
    git clone -q "$source" "$root/root/mgpt"
    git clone -q "$source" "$root/home/reader/mgpt"
    inside root 'chown -R reader:reader /home/reader'
}

# What the two models write, by the commands of start.sh, and the hashes of all logits.
sed -n 's/^build.tools.mgpt/"$MGPT"/p' "$source/tools/start.sh" >"$folder/commands"
for name in names shakespeare; do echo "\"\$MGPT\" check --self weights/$name.gguf | tail -n 1 | cut -c 1-16"; done >>"$folder/commands"
(cd "$source" && MGPT=$mgpt sh "$folder/commands" 2>/dev/null) >"$folder/want"
same() {
    cp "$folder/commands" "$folder/$release/tmp/"
    inside "$1" "MGPT=$2 sh /tmp/commands 2>/dev/null" | diff "$folder/want" -
}

refused_user() { # one line that names the packages
    code=0
    inside reader 'tools/start.sh' || code=$?
    [ "$code" -eq 1 ] && grep -q 'as root: apt-get update && apt-get install gcc' "$folder/out"
}
ends_with_next() {
    inside "$1" 'tools/start.sh' && tail -n 4 "$folder/out" | grep -c 'build/tools/mgpt' | grep -qx 3
}
all_tests() { # each skipped test says why
    inside root 'tools/test.sh; code=$?; grep "^skipped: " build/meson-logs/testlog.txt; exit $code'
    said=$(grep -c '^skipped: ' "$folder/out" || true)
    grep -E '^[0-9]+ passed, 0 failed, [0-9]+ skipped$' "$folder/out" >"$folder/count"
    [ "$(sed 's/.* \([0-9]*\) skipped/\1/' "$folder/count")" -le "$said" ]
}
readers_compilers() {
    inside root 'apt-get install -y -qq --no-install-recommends clang && { apt-get install -y -qq --no-install-recommends gcc-11 || true; } &&
        ninja -C build amalgamation && MGPT_SOURCE_ROOT=$PWD sh tests/shape/reader.sh build/tools/amalgamation gcc clang gcc-11'
}
make_wheel() {
    inside root 'ninja -C build wheel'
    rm -f "$folder/$release"-*.whl
    for wheel in "$folder/$release"/root/mgpt/build/tools/python/*.whl; do
        mkdir -p "$folder/wheels/$release"
        cp "$wheel" "$folder/wheels/$release/"
    done
}
install_wheel() { # FROM: in a virtual environment; the package computes the hash that the program has
    rm -rf "$folder/$release/tmp/wheels"
    cp -r "$folder/wheels/$1" "$folder/$release/tmp/wheels"
    inside root "apt-get install -y -qq --no-install-recommends python3-venv && rm -rf /tmp/venv && python3 -m venv /tmp/venv &&
        /tmp/venv/bin/pip install -q /tmp/wheels/*.whl && /tmp/venv/bin/python -c 'import mgpt; print(mgpt.Model(\"weights/names.gguf\").logits(\"anna\").shape)'" &&
        same root /tmp/venv/bin/mgpt
}

# A wheel's name says which C library it needs (manylinux_2_38: glibc 2.38). With an older one pip must say no.
other_wheel() { # FROM
    inside root "apt-get install -y -qq --no-install-recommends python3-venv" >&2
    needs=$(find "$folder/wheels/$1" -name '*.whl' | sed 's/.*manylinux_2_\([0-9]*\)_.*/\1/')
    has=$(inside root 'ldd --version' | sed -n '1s/.* 2\.//p')
    if [ "$needs" -le "$has" ]; then
        install_wheel "$1"
    else
        ! install_wheel "$1" >"$folder/refused" 2>&1 && grep 'is not a supported wheel on this platform' "$folder/refused"
    fi
}

# ---- a newcomer's commands, as README has them ----

# readme TEXT: the commands of the block that has the text.
readme() {
    awk -v text="$1" '/^```console$/ { inside = 1; block = ""; next } inside && /^```$/ { inside = 0; if (index(block, text)) { printf "%s", block; exit } }
        inside && /^\$ / { block = block substr($0, 3) "\n" }' "$source/README.md"
}
page_of_lab() { # the page has the bytes of this machine's
    commands=$(readme '-o lab.html' | sed -n '/^cd /,$p')
    [ -n "$commands" ] && inside reader "set -e
$commands"
    here=$(mktemp -d)
    cp "$source"/weights/names-steps/* "$here/"
    (cd "$here" && eval "$(echo "$commands" | sed '/^cd /d; s|[./]*build/tools/mgpt|"$mgpt"|')")
    cmp "$here/lab.html" "$folder/$release/home/reader/mgpt/weights/names-steps/lab.html"
    rm -r "$here"
}
own_checkpoint() { # of nanoGPT, whose program wrote ckpt.pt and meta.pkl: the text is this machine's
    commands=$(readme '--assume nanogpt' | sed -n 's/ *#.*//; s/"The "/ab/; /mine\.gguf/p')
    inside reader "mkdir out && cp tests/fixtures/torch/nanogpt/* out/ && set -e
$commands" >"$folder/text"
    here=$(mktemp -d)
    mkdir "$here/out"
    cp "$source"/tests/fixtures/torch/nanogpt/* "$here/out/"
    (cd "$here" && eval "$(echo "$commands" | sed 's|build/tools/mgpt|"$mgpt"|')") >"$folder/text.here"
    rm -r "$here"
    [ -s "$folder/text" ] && cmp "$folder/text" "$folder/text.here"
}
python_package() { # the attention that Python prints is that of README's table
    inside root 'apt-get install -y -qq --no-install-recommends python3-venv'
    { awk '/^```python$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md"
        echo 'print("row", *("%.4f" % x for x in cache["pattern", 0][0, 3][4]))'; } >"$folder/$release/tmp/readme.py"
    row=$(sed -n 's/^4 "a" *\([0-9. ]*\)$/\1/p' "$source/README.md")
    commands=$(readme 'pip install ./tools/python')
    inside reader "set -e
$commands /tmp/readme.py" >"$folder/text"
    cat "$folder/text"
    grep -qx "row $row" "$folder/text"
}

# The Debian packages of this machine's `ninja release`, where it has been made, without recommended packages.
install_debs() {
    rm -rf "$folder/$release/tmp/debs"
    mkdir "$folder/$release/tmp/debs"
    cp "$debs"/*.deb "$folder/$release/tmp/debs/"
    inside root 'apt-get install -y -qq --no-install-recommends /tmp/debs/*.deb gcc libc6-dev pkg-config' && same root /usr/bin/mgpt &&
        inside root "printf '#include <mgpt.h>\nint main(void) { mgpt_close(0); return 0; }\n' >/tmp/main.c &&
            cc /tmp/main.c -o /tmp/main \$(pkg-config --cflags --libs mgpt) && /tmp/main &&
            cc -static /tmp/main.c -o /tmp/main \$(pkg-config --static --cflags --libs mgpt) && /tmp/main"
}
debs=$(dirname "$(dirname "$mgpt")")/release

for release; do
    : >"$folder/$release.log"
    step "debootstrap, git, a user" make_root
    step "start.sh says what is missing to a user without sudo" refused_user
    step "start.sh as root" ends_with_next root
    step "text and hashes" same root build/tools/mgpt
    step "start.sh as a user without sudo" ends_with_next reader
    step "text and hashes of theirs" same reader build/tools/mgpt
    step "a page of the lab" page_of_lab
    step "a checkpoint of nanoGPT" own_checkpoint
    step "Python" python_package
    if [ -z "$quick" ]; then
        step "tools/test.sh" all_tests
        sed 's/^/#   /' "$folder/count" 2>/dev/null || true
    fi
    step "README's program with README's command" readers_compilers
    step "wheel" make_wheel
    [ ! -d "$debs" ] || step "packages of ninja release" install_debs
done
for release; do
    for other; do
        [ "$other" = "$release" ] || step "the wheel of $other" other_wheel "$other"
    done
done
exit "$failed"
