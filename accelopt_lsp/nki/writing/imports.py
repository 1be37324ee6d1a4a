"""What a text's imports call NKI's modules, read line by line: unfinished code counts too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from attrs import field, frozen

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.reference.paths import canonical_path, full_path, path_dialect

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]*"
    r"(?:\((?P<many>[^)]*)\)?|(?P<names>.*))"
    r"|import[ \t]+(?P<modules>.*))",
    re.MULTILINE,
)
_RENAMING = re.compile(r"^([^\W\d]\w*)[ \t]*=[ \t]*([^\W\d][\w.]*)[ \t]*$", re.MULTILINE)


@frozen(slots=True, eq=False)
class Imports:
    """Names of one text.

    Attributes:
        table: local name to canonical path; the first binding of a name counts.
        dialect: of the first import of NKI; None without one.
        stars: canonical modules of which everything was imported.
    """

    table: Mapping[str, str] = field(factory=dict)
    dialect: Dialect | None = None
    stars: tuple[str, ...] = ()

    def canonical(self, dotted: str) -> str | None:
        """Canonical path of a dotted local name; None if it comes from no import."""
        from accelopt_lsp.nki.reference.names import find_name

        head, _, rest = dotted.partition(".")
        base = self.table.get(head)
        if base is not None:
            return canonical_path(f"{base}.{rest}" if rest else base)
        found = (f"{module}.{dotted}" for module in self.stars)
        return next((path for path in found if find_name(path) is not None), None)

    def local(self, path: str) -> str | None:
        """How the text writes a canonical path; None if no import reaches it."""
        for name, base in self.table.items():
            if path == base:
                return name
        for name, base in self.table.items():
            if base != "nki" and path.startswith(f"{base}."):
                return name + path[len(base) :]
        package = next((name for name, base in self.table.items() if base == "nki"), None)
        full = full_path(path)
        if package is not None and full.startswith("nki."):
            return package + full[len("nki") :]
        if path.partition(".")[0] in self.stars:
            return path.partition(".")[2]
        return None


@lru_cache(maxsize=8)
def read_imports(code: str) -> Imports:
    """The imports of a text whose strings and comments are blank."""
    table: dict[str, str] = {}
    stars: list[str] = []
    dialect: Dialect | None = None
    for match in _IMPORT.finditer(code):
        for local, path in _bindings(match):
            dialect = dialect or path_dialect(path)
            if local == "*":
                stars.append(canonical_path(path))
            elif local.isidentifier():
                table.setdefault(local, canonical_path(path))
    found = Imports(table, dialect, tuple(stars))
    for match in _RENAMING.finditer(code):
        renamed = found.canonical(match[2])
        if renamed is not None:
            table.setdefault(match[1], renamed)
    return found


def _bindings(match: re.Match[str]) -> Iterator[tuple[str, str]]:
    module = match["module"]
    listed = match["many"] or match["names"] or match["modules"] or ""
    for part in listed.replace("\n", " ").replace("\\", " ").split(","):
        words = part.split()
        if not words:
            continue
        alias = words[2] if len(words) > 2 and words[1] == "as" else None
        path = words[0] if module is None else f"{module}.{words[0]}"
        if words[0] == "*" and module is not None:
            yield "*", module
        elif alias is not None or module is not None:
            yield alias or words[0], path
        else:
            head = path.partition(".")[0]
            yield head, head
            if path != head and path_dialect(path) is not None:
                # The import says the dialect although only its head is bound.
                yield "", path
