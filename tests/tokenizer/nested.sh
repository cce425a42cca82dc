#!/bin/sh
# Instructions per byte of tokenizing a text of a's with a vocabulary of a, aa, aaa, ...: each byte takes a bounded
# number, however long the tokens are. Two lengths of text, so that opening cancels out. Unigram looks at all
# tokens that end at a place; all others at one.
#
# Holds for optimised builds only. Without valgrind: skipped.
set -eu
command -v valgrind >/dev/null || { echo "skipped: no valgrind"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tokens=400
python3 - "$tmp" $tokens <<'END'
import struct, sys
folder, n = sys.argv[1], int(sys.argv[2])

def text(s):
    return struct.pack("<Q", len(s)) + s

def array(key, kind, form, values):
    data = b"".join(text(v) if form is None else struct.pack(form, v) for v in values)
    return text(key) + struct.pack("<IIQ", 9, kind, len(values)) + data

NORMAL, UNKNOWN, CONTROL, USER = 1, 2, 3, 4
SPM = [(b"<unk>", UNKNOWN), (b"<s>", CONTROL), (b"</s>", CONTROL), ("\u2581".encode(), NORMAL), (b"a", NORMAL)]
BPE = [(b"a", NORMAL), (b"b", NORMAL)]
for name, model, first, kind in [("unigram", b"t5", SPM, NORMAL), ("unigram-user", b"t5", SPM, USER), ("spm", b"llama", SPM, NORMAL),
                                 ("spm-user", b"llama", SPM, USER), ("user", b"gpt2", BPE, USER), ("control", b"gpt2", BPE, CONTROL),
                                 ("wordpiece", b"mgpt-wordpiece", [(b"<unk>", UNKNOWN), (b"a", NORMAL)], NORMAL)]:
    tokens = first + [(b"a" * k, kind) for k in range(2, n + 1)]
    entries = [text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"),
               text(b"tokenizer.ggml.model") + struct.pack("<I", 8) + text(model),
               array(b"tokenizer.ggml.tokens", 8, None, [t for t, _ in tokens]),
               array(b"tokenizer.ggml.token_type", 5, "<i", [k for _, k in tokens]),
               array(b"tokenizer.ggml.scores", 6, "<f", [-1 - 1.01 * len(t) for t, _ in tokens]),
               array(b"tokenizer.ggml.merges", 8, None, [])]
    if model == b"mgpt-wordpiece":
        entries += [text(b"mgpt.tokenizer.word_chars") + struct.pack("<II", 4, 10000), array(b"mgpt.tokenizer.normalizers", 8, None, [])]
    if name == "spm-user":
        entries.append(text(b"mgpt.tokenizer.user_pieces") + struct.pack("<IB", 7, 1))
    with open("%s/%s.gguf" % (folder, name), "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))
for length in 2000, 6000:
    with open("%s/%d" % (folder, length), "w") as f:
        f.write("a" * length)
END

# count NAME LENGTH: the instructions executed.
count()
{
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "${MGPT:?}" tokenize "$tmp/$1.gguf" -f "$tmp/$2" --special \
        2>"$tmp/log" >/dev/null || { cat "$tmp/log" >&2; exit 1; }
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$tmp/log"
}

bad=0
# at_most NAME INSTRUCTIONS
at_most()
{
    each=$((($(count "$1" 6000) - $(count "$1" 2000)) / 4000))
    echo "$1: $each instructions per byte, allowed are $2"
    [ "$each" -le "$2" ] || bad=1
}
for row in "unigram $((tokens * 40))" "unigram-user $((tokens * 40))" "spm 3000" "spm-user 300" "user 300" "control 300" "wordpiece 400"; do
    # shellcheck disable=SC2086  # a name and a number
    at_most $row
done
exit $bad
