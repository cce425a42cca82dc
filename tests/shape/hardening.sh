#!/bin/sh
# The shipped program and library: position independent, relocations read-only before main, no executable
# stack, stack protector and FORTIFY at work, and no way to the network. Arguments: mgpt, libmgpt.so.
set -eu
failed=0

expect() { # WHAT FILE: standard input must not be empty
    if grep -q .; then
        echo "ok $(basename "$2"): $1"
    else
        echo "not ok $(basename "$2"): $1"
        failed=1
    fi
}

for file in "$@"; do
    readelf -hW "$file" | grep 'DYN (' | expect 'position independent' "$file"
    readelf -lW "$file" | grep GNU_RELRO | expect 'read-only relocations' "$file"
    readelf -dW "$file" | grep -w -e BIND_NOW -e NOW | expect 'bound at start' "$file"
    readelf -lW "$file" | grep 'GNU_STACK.* RW ' | expect 'no executable stack' "$file"
    symbols=$(nm -D --undefined-only "$file")
    echo "$symbols" | grep -w __stack_chk_fail | expect 'stack protector' "$file"
    echo "$symbols" | grep '__[a-z]*_chk' | grep -v __stack_chk_fail | expect 'FORTIFY' "$file"
    network=$(echo "$symbols" |
        grep -wE 'socket|connect|bind|listen|accept|send|sendto|recv|recvfrom|getaddrinfo|gethostbyname' || true)
    test -z "$network" || { echo "not ok $(basename "$file"): calls $network"; failed=1; }
done
exit $failed
