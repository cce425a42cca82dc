"""The declarations in mgpt/_lib.py are those of include/mgpt.h: structs by compiling, functions by their text."""
import ctypes as c
import inspect
import re
import subprocess

import mgpt
import pytest
from mgpt import _lib, _rows

STRUCTS = {"mgpt_error": _lib.CError, "mgpt_model_params": _lib.CModelParams, "mgpt_info": _lib.CInfo,
           "mgpt_layer": _lib.CLayer, "mgpt_tensor": _lib.CTensor, "mgpt_stream": _lib.CStream,
           "mgpt_session_params": _lib.CSessionParams, "mgpt_sampler": _lib.CSampler, "mgpt_run": _lib.CRun,
           "mgpt_candidate": _lib.CCandidate, "mgpt_value": _lib.CValue}
CONSTANTS = {"MGPT_OK": 0, "MGPT_ESTOP": _lib.ESTOP, "MGPT_NO_SPECIAL_TOKENS": _lib.NO_SPECIAL_TOKENS,
             "MGPT_PARSE_SPECIAL": _lib.PARSE_SPECIAL, "MGPT_N_POINTS": len(_lib.POINTS),
             **{f"MGPT_{n}": getattr(mgpt, n) for n in ("EARG", "EFILE", "EMEM", "EIO", "EFULL", "ETEXT", "ESTOP")},
             **{f"MGPT_KV_{name.upper()}": n for name, n in _lib.KV_TYPES.items() if n},
             **{f"MGPT_{name}": n for name, n in _lib.POINT.items()}}
# Arrays and objects are addresses here; a pointer to a struct or number is typed.
TYPES = {"size_t": c.c_size_t, "int32_t": c.c_int32, "uint64_t": c.c_uint64, "int64_t": c.c_int64, "int": c.c_int,
         "unsigned": c.c_uint, "double": c.c_double, "mgpt_point": c.c_int, "mgpt_role": c.c_int, "mgpt_part": c.c_int, "void": None, "char *": c.c_char_p,
         "mgpt_tap_fn *": _lib.TapFn, "size_t *": c.POINTER(c.c_size_t),
         "mgpt_session *const *": c.POINTER(c.c_void_p),
         **{f"{name} *": c.POINTER(struct) for name, struct in STRUCTS.items()}}
ADDRESSES = {("mgpt_token_text", "char *"), ("mgpt_piece", "char *")}  # bytes that do not end in NUL
UNUSED = {"mgpt_open_bytes", "mgpt_isa", "mgpt_n_threads", "mgpt_session_model", "mgpt_sample_many"}


def header_text(root):
    return re.sub(r"/\*.*?\*/", " ", (root / "include/mgpt.h").read_text(), flags=re.S)


def test_sizes_of_rows(root):
    """Buffers that the library fills have the sizes of its own headers."""
    for file, name, pattern in (("author.h", "AUTHOR_MOST", r"AUTHOR_MOST = (\d+)"), ("author.h", "AUTHOR_TEXT", r"char text\[(\d+)\]"),
                                ("heal.h", "HEAL_BYTES", r"HEAL_BYTES = (\d+)")):
        found = re.findall(pattern, (root / "tools/choose" / file).read_text())
        assert found == [str(getattr(_rows, name))], name


def test_structs_and_constants(root, tmp_path):
    rows = {f"sizeof({name})": c.sizeof(struct) for name, struct in STRUCTS.items()}
    rows |= {f"offsetof({name}, {f[0]})": getattr(struct, f[0]).offset
             for name, struct in STRUCTS.items() for f in struct._fields_}
    rows |= CONSTANTS
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    lines = "".join(f'printf("%lld\\n", (long long)({row}));' for row in rows)
    source.write_text(f'#include <mgpt.h>\n#include <stdio.h>\nint main(void) {{ {lines} return 0; }}')
    subprocess.run(["cc", "-I", root / "include", source, "-o", program], check=True)
    found = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert dict(zip(rows, map(int, found))) == rows


@pytest.mark.parametrize("name", STRUCTS)
def test_fields(root, name):
    (body,) = re.findall(r"typedef struct %s \{(.*?)\} %s;" % (name, name), header_text(root), re.S)
    body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", body)
    fields = [re.sub(r".*[ *]", "", declarator.strip()) for line in body.split(";") if line.strip()
              for declarator in re.sub(r"\[(\w+)\]", "", line).split(",")]
    assert fields == [f[0] for f in STRUCTS[name]._fields_]


def ctype(function, text):
    """A C type of a prototype as ctypes has it in _lib."""
    text = re.sub(r"\bconst (?!\*)", "", text).strip()
    text = re.sub(r"(?<=[\w*])\s*\w+$", "", text) if not text.endswith("*") and text not in TYPES else text
    text = re.sub(r"\s*\*", " *", text).replace(" *const", " *const").strip()
    if text.endswith("*") and (text not in TYPES or (function, text) in ADDRESSES):
        return c.c_void_p
    return TYPES[text]


def prototypes(root):
    text = re.sub(r"#define MGPT_API.*", "", header_text(root))
    for result, name, parameters in re.findall(r"MGPT_API ([^;(]*?)(\bmgpt_\w+)\(([^;]*)\);", text):
        parameters = re.sub(r"\s+", " ", parameters)
        yield name, result.strip(), [] if parameters == "void" else parameters.split(", ")


def test_functions(root):
    declared = {name: (result, parameters) for name, result, parameters in prototypes(root)}
    new = set(declared) - set(_lib.FUNCTIONS) - UNUSED
    assert set(_lib.FUNCTIONS) <= set(declared)
    print("not in the package:", *sorted(new))
    for name, (result, arguments) in _lib.FUNCTIONS.items():
        assert ctype(name, declared[name][0]) == result, name
        found = [ctype(name, p) for p in declared[name][1]]
        same = [a == b or {a, b} == {c.c_char_p, c.c_void_p} for a, b in zip(found, arguments)]
        assert len(found) == len(arguments) and all(same), (name, declared[name][1], found, arguments)


def public():
    """(name, value) of everything that a user calls."""
    for name in mgpt.__all__:
        value = getattr(mgpt, name)
        if callable(value):
            yield name, value
        if inspect.isclass(value):
            for member, inner in vars(value).items():
                if not member.startswith("_"):
                    yield f"{name}.{member}", getattr(inner, "fget", getattr(inner, "__func__", inner))


def test_every_public_name_is_typed_and_documented():
    for name, value in public():
        if inspect.isfunction(value) or inspect.isclass(value):
            assert inspect.getdoc(value), f"{name} has no docstring"
        if inspect.isfunction(value):
            assert inspect.signature(value).return_annotation is not inspect.Signature.empty, name
