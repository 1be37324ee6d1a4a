"""Shape and type of an array in a ``.npy`` file, from its header alone. Imports no NumPy.

Source of the format: numpy.lib.format, versions 1 to 3.
"""

from __future__ import annotations

import ast
from pathlib import Path

from accelopt_lsp.nki.dtypes import DType, find_dtype
from accelopt_lsp.nki.files import file_size

_MAGIC = b"\x93NUMPY"
_LIMIT = 1 << 16
_TYPES = {
    "f2": "float16",
    "f4": "float32",
    "f8": "float32",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int32",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "b1": "bool",
}
"""NumPy's kinds and sizes to what a kernel gets: 64 bits are halved, as in the simulator."""


def array_header(path: Path) -> tuple[tuple[int, ...], DType] | str:
    """Shape and type of an array in a file, or why they are not known. Never raises."""
    try:
        file_size(path)  # what is no file may never answer
        with path.open("rb") as file:
            head = file.read(12)
            if not head.startswith(_MAGIC) or len(head) < 12:
                return f"{path.name} is no .npy file"
            wide = head[6] >= 2
            length = int.from_bytes(head[8:12] if wide else head[8:10], "little")
            text = (b"" if wide else head[10:12]) + file.read(min(length, _LIMIT))
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror or 'it is no file'}"
    try:
        found = ast.literal_eval(text[:length].decode("latin-1").strip())
        shape, kind = tuple(found["shape"]), str(found["descr"])
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError):
        return f"the header of {path.name} is damaged"
    dtype = find_dtype(_TYPES.get(kind.lstrip("<>=|"), ""))
    if dtype is None or not all(type(n) is int and n > 0 for n in shape):
        return f"{path.name} holds {kind}, which analysis does not know"
    return shape, dtype
