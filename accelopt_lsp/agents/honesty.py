"""What a kernel's source has no business with: other files, the simulator's insides, old results.

A kernel can only become faster honestly by what it issues. Whatever else a new version begins to
do (read files, look into objects, keep results, draw random numbers) is refused before it is run.
What the kernel as it was does already is its author's choice and stays allowed. This looks at
text alone and is no fence: the sandbox is one, and outputs are compared on inputs of other seeds
and scales whatever the text says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from attrs import define, field, frozen

from accelopt_lsp.analysis.tree import dotted
from accelopt_lsp.nki.python_source import parse_python

PLAIN_MODULES = frozenset(
    "__future__ abc collections contextlib dataclasses enum functools itertools math ml_dtypes "
    "neuronxcc nki numbers numpy operator typing typing_extensions".split()
)
"""Top-level modules that a new version may import although the kernel as it was does not."""
_FILES = frozenset(
    "open fromfile load loadtxt genfromtxt fromregex memmap DataSource save savez savetxt tofile "
    "read_text read_bytes write_text write_bytes open_memmap".split()
)
_INSIDES = frozenset(
    "eval exec compile globals locals vars dir breakpoint input memoryview delattr ctypeslib "
    "attrgetter methodcaller f_back f_locals f_globals tb_frame gi_frame cr_frame gc_referents "
    "get_referrers get_objects settrace setprofile addaudithook _getframe modules".split()
)
_NUMPY_INSIDES = frozenset("lib core _core testing f2py distutils ctypeslib rec".split())
_RANDOM = frozenset(
    "random rand random_seed dropout rng urandom default_rng time time_ns perf_counter monotonic "
    "now uuid4 getrandbits id hash".split()
)
_CALLED_ONLY = frozenset("id hash time now load compile input dir save rec".split())
"""Names that are ordinary unless they are called."""
_NEVER_OWN = frozenset(
    "open eval exec globals locals vars breakpoint memoryview delattr __import__".split()
)
"""Builtins that no kernel has a variable of the same name for."""
_REACHED = frozenset(
    "os _os sys _sys gc inspect importlib builtins subprocess types ctypes threading warnings "
    "weakref io pathlib".split()
)
"""Modules that others of the standard library hold."""
_NKI_ROOTS = ("nki", "neuronxcc")
_NKI_RANDOM = frozenset("rand random_seed dropout rng".split())
_SIMULATED = frozenset(
    "memory operand _region views patterns fault settle typed derived static narrow copied "
    "same_place array".split()
)
"""What the simulator's tensors have besides what NKI's have."""
_DESCRIBING = frozenset(
    "shape strides offset element buffer dtype name itemsize dynamic augmented shared".split()
)
"""What tells how large a tensor is, and so what its instructions cost."""
_REFLECTING = frozenset("getattr hasattr setattr".split())
_SWALLOWERS = frozenset("suppress ExitStack AsyncExitStack".split())
_CHANGES = frozenset(
    "append add update setdefault extend insert pop popitem clear remove discard appendleft".split()
)
_MEMOIZERS = frozenset("cache lru_cache cached_property".split())
_DUNDER = re.compile(r"__\w+__\Z")
_PLAIN_DUNDERS = frozenset(
    "__init__ __post_init__ __name__ __main__ __call__ __iter__ __len__ __getitem__ __setitem__ "
    "__enter__ __exit__ __repr__ __str__ __eq__ __all__ __version__ __doc__".split()
)


@frozen(slots=True)
class Use:
    """One thing that a source does besides computing.

    Attributes:
        gate: what it is about: ``imports``, ``files``, ``tampering``, ``state`` or ``randomness``.
        what: in words.
        line: where.
    """

    gate: str
    what: str
    line: int

    @property
    def message(self) -> str:
        return f"line {self.line}: {self.what}, which the kernel as it was does not"


def suspicious(baseline: str, text: str) -> tuple[Use, ...]:
    """What ``text`` does besides computing and ``baseline`` does not, in order of lines.

    Nothing for a text that does not parse: it cannot run either.
    """
    known = {(use.gate, use.what) for use in uses(baseline)}
    found: dict[tuple[str, str], Use] = {}
    for use in sorted(uses(text), key=lambda u: u.line):
        if (use.gate, use.what) not in known:
            found.setdefault((use.gate, use.what), use)
    return tuple(found.values())


def uses(text: str) -> list[Use]:
    """Everything that a source does besides computing."""
    try:
        module = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    reader = _Reader(module)
    reader.read()
    return reader.found


@define
class _Reader:
    """Walks a module once; knows what its names stand for."""

    module: ast.Module
    found: list[Use] = field(factory=list)
    origins: dict[str, str] = field(factory=dict)
    """Imported name to the dotted name that it stands for."""
    called: set[int] = field(factory=set)
    """Nodes that are called where they stand."""
    methods: dict[str, frozenset[str]] = field(factory=dict)
    """Classes of the module to their methods that need an object."""
    own_attributes: set[int] = field(factory=set)
    """Attributes of ``self``, in methods of the module's classes."""

    def read(self) -> None:
        for node in ast.walk(self.module):
            self._imports(node)
        for name in _module_names(self.module):
            self.origins.setdefault(name, "")
        self._aliases()
        for node in ast.walk(self.module):
            if isinstance(node, ast.Call):
                self.called.add(id(node.func))
            elif isinstance(node, ast.ClassDef):
                self._class(node)
        for node in ast.walk(self.module):
            self._names(node)
            self._statements(node)
        for function in ast.walk(self.module):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                self._state(function)

    def _class(self, node: ast.ClassDef) -> None:
        """Note what methods do with their own objects."""
        found = set()
        for method in node.body:
            if not isinstance(method, ast.FunctionDef) or not method.args.args:
                continue
            if any(
                not isinstance(d, ast.Name) or d.id != "property" for d in method.decorator_list
            ):
                continue
            found.add(method.name)
            first = method.args.args[0].arg
            if first in _rebound(method):
                continue
            self.own_attributes |= {
                id(part)
                for part in ast.walk(method)
                if isinstance(part, ast.Attribute)
                and isinstance(part.value, ast.Name)
                and part.value.id == first
            }
        self.methods[node.name] = frozenset(found)

    def _add(self, gate: str, what: str, node: ast.AST) -> None:
        self.found.append(Use(gate, what, getattr(node, "lineno", 0)))

    def _imports(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                self.origins[bound] = alias.name if alias.asname else bound
                self._module(alias.name, node)
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            for alias in node.names:
                self.origins[alias.asname or alias.name] = f"{name}.{alias.name}"
                self._attribute(f"{name}.{alias.name}", node, called=True)
            if node.module is None:
                for alias in node.names:
                    self._module(f"{name}{alias.name}", node)
            else:
                self._module(name, node)

    def _aliases(self) -> None:
        """``load = np.load``: the name stands for what it was given."""
        for node in ast.walk(self.module):
            if not isinstance(node, ast.Assign) or not isinstance(
                node.value, ast.Name | ast.Attribute
            ):
                continue
            name = self.dotted(node.value)
            if name is None or name.partition(".")[0] not in PLAIN_MODULES:
                continue
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.origins[target.id] = name

    def _module(self, name: str, node: ast.AST) -> None:
        if name.partition(".")[0] not in PLAIN_MODULES:
            self._add("imports", f"imports {name}", node)
        elif name.startswith("numpy."):
            self._attribute(name, node, called=True)

    def _names(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            name = self.dotted(node.func)
            if name is not None:
                self._attribute(name, node, called=True)
            self._reflection(node, name)
        elif isinstance(node, ast.Attribute):
            self._attribute(self.dotted(node) or f"?.{node.attr}", node)
            self._owned(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            self._attribute(self.origins.get(node.id) or node.id, node)
            if node.id in _REFLECTING and id(node) not in self.called:
                self._add("tampering", f"hands on {node.id}", node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _DUNDER.match(node.value) and node.value not in _PLAIN_DUNDERS:
                self._add("tampering", f"names {node.value}", node)

    def _owned(self, node: ast.Attribute) -> None:
        """Judge an attribute of something that may be a tensor."""
        name = self.dotted(node) or "?"
        if name.partition(".")[0] in PLAIN_MODULES:
            return
        if node.attr in _SIMULATED:
            self._add("tampering", f"looks into the simulator with {node.attr}", node)
        elif (
            isinstance(node.ctx, ast.Store | ast.Del)
            and node.attr in _DESCRIBING
            and id(node) not in self.own_attributes
        ):
            self._add("tampering", f"changes {node.attr} of what may be a tensor", node)
        elif isinstance(node.value, ast.Name) and node.attr in self.methods.get(node.value.id, ()):
            self._add("tampering", f"takes the method {name} without an object", node)

    def _reflection(self, node: ast.Call, name: str | None) -> None:
        if name in ("getattr", "hasattr") and len(node.args) > 1:
            asked = node.args[1]
            if isinstance(asked, ast.Constant) and isinstance(asked.value, str):
                owner = self.dotted(node.args[0]) or "?"
                self._attribute(f"{owner}.{asked.value}", node, called=True)
            else:
                self._add("tampering", f"looks up a computed name with {name}", node)
        elif name == "setattr":
            self._add("tampering", "sets attributes with setattr", node)
        elif name == "type" and len(node.args) == 3:
            self._add("tampering", "makes classes with type", node)

    def _attribute(self, name: str, node: ast.AST, *, called: bool = False) -> None:
        """Judge one dotted name."""
        *owners, last = name.split(".")
        root = owners[0] if owners else ""
        if _DUNDER.match(last) and last not in _PLAIN_DUNDERS:
            self._add("tampering", f"looks at {last}", node)
            return
        if last in _CALLED_ONLY and not called:
            return
        if _REACHED & {*owners[1:], last} and root in PLAIN_MODULES:
            self._add("tampering", f"reaches other modules by {name}", node)
        if root in _NKI_ROOTS:
            if last in _NKI_RANDOM:
                self._add("randomness", f"draws random numbers with {last}", node)
            return
        # A method of the kernel's own objects, or a local name that shadows a builtin.
        own = self.origins.get(root or last) == "" and last not in _NEVER_OWN
        if own:
            return
        if last in _FILES and (not owners or root != "?" or last.startswith(("read_", "write_"))):
            self._add("files", f"reads or writes files with {last}", node)
        elif last in _INSIDES or (root == "numpy" and _NUMPY_INSIDES & {*owners, last}):
            self._add("tampering", f"looks into Python or NumPy with {last}", node)
        elif (last in _RANDOM or "random" in owners) and (not owners or root not in ("?", "")):
            self._add("randomness", f"depends on chance, time or addresses ({last})", node)

    def dotted(self, node: ast.AST) -> str | None:
        """``numpy.random.rand`` of ``np.random.rand``; None for what is no dotted name."""
        name = dotted(node)
        if name is None:
            return None
        head, point, rest = name.partition(".")
        return (self.origins.get(head) or head) + point + rest

    def _statements(self, node: ast.AST) -> None:
        if isinstance(node, ast.Try | ast.TryStar):
            if all(isinstance(part, ast.Import | ast.ImportFrom) for part in node.body):
                return
            self._add("tampering", "catches exceptions, a rejected instruction's among them", node)
        elif isinstance(node, ast.FunctionDef) and node.name in ("__exit__", "__aexit__"):
            if any(
                isinstance(part, ast.Return) and not (part.value is None or _is_false(part.value))
                for part in ast.walk(node)
            ):
                self._add("tampering", "may swallow exceptions in __exit__", node)
        elif isinstance(node, ast.Global):
            self._add("state", f"changes module variables ({', '.join(node.names)})", node)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                name = ""
                if isinstance(item.context_expr, ast.Call):
                    name = self.dotted(item.context_expr.func) or ""
                if name.rpartition(".")[2] in _SWALLOWERS:
                    self._add("tampering", "suppresses exceptions", node)
        for target in _targets(node):
            self._assigned(target)
        for decorator in getattr(node, "decorator_list", ()):
            call = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = (self.dotted(call) or "").rpartition(".")[2]
            if name in _MEMOIZERS:
                self._add("state", f"keeps results between calls with {name}", decorator)

    def _assigned(self, target: ast.expr) -> None:
        """``nl.load = mine``: a change of what somebody else defined."""
        if not isinstance(target, ast.Attribute):
            return
        name = self.dotted(target) or ""
        root = name.partition(".")[0]
        if root in PLAIN_MODULES or _is_imported(self.origins, target):
            self._add("tampering", f"replaces {name}", target)

    def _state(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        """What outlives a call: changes of the module's objects, mutable defaults."""
        defaults = [*function.args.defaults, *(d for d in function.args.kw_defaults if d)]
        if any(isinstance(d, ast.List | ast.Dict | ast.Set) for d in defaults):
            self._add(
                "state", "has a list, dict or set as a default, which outlives calls", function
            )
        if isinstance(function, ast.Lambda):
            return
        shared = _module_variables(self.module) - _bound_in(function)
        for node in ast.walk(function):
            for target in _targets(node):
                name = _root_name(target)
                if not isinstance(target, ast.Name) and name in shared:
                    self._add("state", f"changes {name}, which outlives calls", node)
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr in _CHANGES:
                name = _root_name(called.value)
                if name in shared:
                    self._add("state", f"changes {name}, which outlives calls", node)
            elif isinstance(called, ast.Name) and called.id == "next" and node.args:
                name = _root_name(node.args[0])
                if name in shared:
                    self._add("state", f"counts calls with {name}", node)


def _is_imported(origins: Mapping[str, str], target: ast.expr) -> bool:
    name = _root_name(target)
    return bool(name and origins.get(name))


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        found = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        found = [node.target]
    elif isinstance(node, ast.Delete):
        found = list(node.targets)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        found = [node.target]
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        found = [node.optional_vars]
    else:
        return
    while found:
        target = found.pop()
        if isinstance(target, ast.Tuple | ast.List):
            found.extend(target.elts)
        else:
            yield target.value if isinstance(target, ast.Starred) else target


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _rebound(function: ast.FunctionDef) -> set[str]:
    """Names that a function or one within it gives a value, parameters of those within too."""
    names = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef | ast.Lambda) and node is not function:
            names |= {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
    return names


def _root_name(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _module_names(module: ast.Module) -> set[str]:
    """Names that the module defines itself."""
    names = _module_variables(module)
    for statement in ast.walk(module):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            names |= {statement.name} | _bound_in(statement)
    return names


def _module_variables(module: ast.Module) -> set[str]:
    """Variables, classes and functions of the module itself."""
    names: set[str] = set()
    for statement in module.body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(statement.name)
        for target in _targets(statement):
            if isinstance(target, ast.Name):
                names.add(target.id)
    return names


def _bound_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that a function binds: parameters and variables."""
    arguments = function.args
    names = {
        a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if a.arg
    }
    names |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
