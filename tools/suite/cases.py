"""Reads a suite: a directory with suite.json and cases.jsonl. Its format is described in README.md."""
import array
import ast
import json
import math
import pathlib
import struct
import sys
import zipfile

FORMATS = ("gguf", "hf", "hf4", "pt", "bin", "llmc")
KINDS = ("logits", "behaviour", "tokenizer", "hooks")


class SuiteError(Exception):
    """The suite cannot be used; the text says which file and why."""


def read_suite(folder):
    """(suite.json, cases) of the directory; paths in the cases are absolute afterwards."""
    folder = pathlib.Path(folder).resolve()
    about, cases, seen = read_about(folder / "suite.json"), [], set()
    for number, line in enumerate(read_text(folder / "cases.jsonl").split("\n"), 1):
        place = f"{folder / 'cases.jsonl'}:{number}"
        if line.strip():
            case = read_case(line, place, folder)
            if case["id"] in seen:
                raise SuiteError(f"{place}: the id {case['id']} is used twice")
            seen.add(case["id"])
            cases.append(case)
    if not cases:
        raise SuiteError(f"{folder / 'cases.jsonl'}: no cases")
    return about, cases


def read_text(path):
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failed:
        raise SuiteError(f"{path}: {getattr(failed, 'strerror', None) or failed}") from None


def read_about(path):
    try:
        about = json.loads(read_text(path))
    except ValueError as failed:
        raise SuiteError(f"{path}: not JSON: {failed}") from None
    if not isinstance(about, dict) or not isinstance(about.get("version"), str):
        raise SuiteError(f'{path}: expected an object with "version", a string')
    return about


def read_case(line, place, folder):
    """A case, checked. Every path in it is joined to the directory."""
    try:
        case = json.loads(line)
    except ValueError as failed:
        raise SuiteError(f"{place}: not JSON: {failed}") from None
    if not isinstance(case, dict):
        raise SuiteError(f"{place}: expected an object")
    case = {"kind": "logits", "what": "", "also": [], **case}
    texts = ["id", "group", "ref", "texts" if case["kind"] == "tokenizer" else "ids"]
    texts += ["how"] if case["kind"] == "behaviour" else []
    for key in texts:
        if not isinstance(case.get(key), str) or not case[key]:
            raise SuiteError(f'{place}: expected "{key}", a string')
    if case["kind"] not in KINDS:
        raise SuiteError(f"{place}: kind {case['kind']}: expected one of {' '.join(KINDS)}")
    names = case.get("names")
    if case["kind"] == "hooks" and not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
        raise SuiteError(f'{place}: expected "names", a list of strings')
    files = case.get("files")
    if not isinstance(files, dict) or not files or not all(isinstance(f, str) for f in files.values()):
        raise SuiteError(f'{place}: expected "files", an object of paths')
    also, rows = case["also"], case.get("rows", [])
    if not isinstance(also, list) or not all(isinstance(a, dict) and isinstance(a.get("ref"), str)
                                             and isinstance(a.get("why"), str) for a in also):
        raise SuiteError(f'{place}: expected "also", a list of {{"ref": path, "why": line}}')
    if not isinstance(rows, list) or not all(type(row) is int and row >= 0 for row in rows):
        raise SuiteError(f'{place}: expected "rows", a list of positions')
    case["files"] = {name: folder / path for name, path in files.items()}
    case["input"] = folder / case["texts" if case["kind"] == "tokenizer" else "ids"]
    case["refs"] = [(folder / case["ref"], None)] + [(folder / a["ref"], a["why"]) for a in also]
    return case


def read_ids(path):
    """The token ids of a case."""
    try:
        return [int(word) for word in read_text(path).split()]
    except ValueError as failed:
        raise SuiteError(f"{path}: {failed}") from None


def read_lines(path, kind):
    """The objects of a file of JSON Lines, all of one type."""
    try:
        lines = [json.loads(line) for line in read_text(path).rstrip("\n").split("\n")]
    except ValueError as failed:
        raise SuiteError(f"{path}: not JSON Lines: {failed}") from None
    if not lines or not all(isinstance(line, kind) for line in lines):
        raise SuiteError(f"{path}: expected a {kind.__name__} on each line")
    return lines


def array_of(data):
    """(array, shape) of a .npy file of float32 or float64."""
    size = struct.unpack_from("<H" if data[6] == 1 else "<I", data, 8)[0]
    start = (10 if data[6] == 1 else 12) + size
    header = ast.literal_eval(data[start - size:start].decode("latin-1").strip())
    values = array.array({"<f4": "f", "<f8": "d"}[header["descr"]])
    values.frombytes(data[start:])
    if data[:6] != b"\x93NUMPY" or header["fortran_order"] or len(values) != math.prod(header["shape"]):
        raise ValueError(f"shape {header['shape']}, {len(values)} values")
    if sys.byteorder == "big":
        values.byteswap()
    return values, header["shape"]


BROKEN = (OSError, ValueError, KeyError, IndexError, TypeError, SyntaxError, struct.error, zipfile.BadZipFile)


def read_npy(path):
    """(array, rows, columns) of a matrix of float32 or float64."""
    try:
        values, (rows, columns) = array_of(path.read_bytes())
    except BROKEN as failed:
        raise SuiteError(f"{path}: expected a matrix of float32 or float64 in .npy, row by row: {failed}") from None
    return values, rows, columns


def read_npz(path, names):
    """[(array, rows, columns)] of arrays in a .npz file; a row is what the first index chooses."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [array_of(archive.read(name + ".npy")) for name in names]
    except BROKEN as failed:
        raise SuiteError(f"{path}: expected arrays of float32 or float64 in .npz: {failed}") from None
    return [(values, shape[0], math.prod(shape[1:])) for values, shape in found]
