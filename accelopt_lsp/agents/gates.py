"""What a kernel must pass before it is offered: right, no less precise, not too good."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from attrs import frozen

from accelopt_lsp.agents.honesty import suspicious
from accelopt_lsp.nki.arguments import KernelArguments, TensorSpec, spec_leaves
from accelopt_lsp.nki.dtypes import BFLOAT16, FLOAT32, DType, find_dtype
from accelopt_lsp.nki.peak import matmul_peak
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.python_source import parse_python
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.base import VALUES_DECIDE

ARRAY_FLOPS_PER_CYCLE = 2 * 128 * 128
_SIGNIFICAND_BITS = {
    "float32": 24,
    "tfloat32": 11,
    "float16": 11,
    "bfloat16": 8,
    "float8_e4m3": 4,
    "float8_e4m3fn": 4,
    "float8_e5m2": 3,
}


@frozen(slots=True)
class StaticFloor:
    """Least time that a kernel can take, whatever its code.

    Attributes:
        hbm_bytes: bytes that must cross HBM once: inputs it reads, outputs it writes.
        matmul_flops: of products that its outputs need.
        hard_ms: at documented peak rates; nothing honest is faster.
        attainable_ms: at the rates that calibration found, launch included; within a margin
            of this there is nothing left to gain.
    """

    hbm_bytes: int
    matmul_flops: int
    hard_ms: float
    attainable_ms: float


def tensor_specs(arguments: KernelArguments) -> Iterator[TensorSpec]:
    """All generated tensors among the arguments, nested ones included."""

    for spec in arguments.values.values():
        yield from (leaf for leaf in spec_leaves(spec) if isinstance(leaf, TensorSpec))


def input_bytes(arguments: KernelArguments) -> int:
    """Bytes of all generated tensors, each once."""
    total = 0
    for spec in tensor_specs(arguments):
        size = spec.dtype.nbytes
        for extent in spec.shape:
            size *= extent
        total += size
    return total


def widest_float(arguments: KernelArguments) -> DType:
    """Widest floating-point type among the tensor arguments; fp32 if there is none."""
    floats = [spec.dtype for spec in tensor_specs(arguments) if spec.dtype.is_float]
    return max(floats, key=lambda d: d.nbytes, default=FLOAT32)


def _narrowest_float(arguments: KernelArguments) -> DType:
    floats = [spec.dtype for spec in tensor_specs(arguments) if spec.dtype.is_float]
    return min(floats, key=lambda d: d.nbytes, default=BFLOAT16)


def _documented(target: Target) -> float:
    """How much faster than its calibrated clock the Tensor Engine is documented to be."""
    return target["pe_clock"] / target["pe_effective_clock"]


def static_floor(
    profile: Profile,
    baseline: Profile,
    arguments: KernelArguments,
    target: Target,
    written_bytes: int | None = None,
) -> StaticFloor:
    """The floor under ``profile``'s kernel.

    A rewrite may remove redundant reads and products of the baseline, so neither counts:
    inputs count once and at most what both kernels read, products at most what both issue
    (dropping one that is needed shows in the outputs). Products run at the rate of the
    narrowest argument type, or at that of either kernel's own instructions where it is higher,
    as it is where operands are cast or packed: both can only lower the floor.

    Args:
        written_bytes: bytes of all outputs, where known.
    """
    read = min(
        input_bytes(arguments), profile.issued.hbm_read_bytes, baseline.issued.hbm_read_bytes
    )
    hbm_bytes = read + (written_bytes or 0)
    flops = min(profile.issued.matmul_flops, baseline.issued.matmul_flops)
    dtype = _narrowest_float(arguments)
    launch = (target.get("launch_ns") or 0.0) * 1e-6
    own = max((1 / time for p in (profile, baseline) if (time := _array_ns_per_flop(p))), default=0)
    peak = max(matmul_peak(target, dtype) * 1e-9, own * _documented(target))
    hard = max(
        hbm_bytes / (target["hbm_bandwidth"] * 1e9) * 1e3,
        flops / peak * 1e-6,
        launch,
    )
    dma_rate = min(target["dma_engines"] * target["dma_engine_rate"], target["hbm_bandwidth"])
    passes = 4 if dtype.nbytes == 4 else 1
    array = ARRAY_FLOPS_PER_CYCLE * target["pe_effective_clock"] / passes
    if dtype.nbytes == 1:
        array *= target["matmul_peak_fp8"] / target["matmul_peak_16bit"]
    attainable = launch + max(hbm_bytes / dma_rate, flops / max(array, own)) * 1e-6
    return StaticFloor(hbm_bytes, flops, hard, attainable)


@frozen(slots=True)
class Finding:
    """Why a kernel is refused."""

    gate: str
    message: str


@frozen(slots=True)
class Gates:
    """The checks of one run; each gives findings, none means passed.

    Attributes:
        baseline_text, function, arguments, target: the problem.
        baseline: its profile.
        written_bytes: bytes of all outputs, where known.
        allow_lower_precision: the user accepts narrower types than the baseline's.
    """

    baseline_text: str
    function: str
    arguments: KernelArguments
    target: Target
    baseline: Profile
    written_bytes: int | None = None
    allow_lower_precision: bool = False

    def floor(self, profile: Profile) -> StaticFloor:
        """Least time of the kernel behind ``profile``."""
        return static_floor(profile, self.baseline, self.arguments, self.target, self.written_bytes)

    def source(self, text: str) -> tuple[Finding, ...]:
        """What speaks against a kernel before it is run: it does more than compute."""
        return tuple(Finding(use.gate, use.message) for use in suspicious(self.baseline_text, text))

    def findings(self, text: str, profile: Profile) -> tuple[Finding, ...]:
        """Everything that speaks against a traced kernel, outputs aside."""
        found = [
            *self._launch(profile),
            *self._latency(profile),
            *self._written(profile),
            *self._returned(profile),
        ]
        if not self.allow_lower_precision:
            found += self._precision(text, profile)
        return tuple(found)

    def verified(self, profile: Profile) -> tuple[Finding, ...]:
        """Whether the outputs of a run with inputs were compared and equal."""
        if profile.correct is True:
            return ()
        if profile.correct is None:
            return (Finding("outputs", "outputs were not compared with anything"),)
        error = profile.max_relative_error
        detail = f" (largest relative error {error:.3g})" if error is not None else ""
        why = "; ".join(profile.notes)
        return (
            Finding("outputs", f"outputs differ from the reference{detail}{why and ': ' + why}"),
        )

    def observed(self, traced: Profile | None, profile: Profile) -> tuple[Finding, ...]:
        """Whether a kernel did with its inputs what it did without them.

        Args:
            traced: its profile without inputs.
            profile: its profile with inputs.
        """
        decided = any(note.startswith(VALUES_DECIDE) for note in profile.notes)
        if decided:
            if any(note.startswith(VALUES_DECIDE) for note in self.baseline.notes):
                return ()
            return (
                Finding(
                    "values",
                    "its course depends on the values of its inputs, which the kernel's as it was "
                    "does not: a latency on random inputs says nothing about others",
                ),
            )
        streams = {p.stream for p in (traced, profile) if p is not None and p.stream is not None}
        if len(streams) < 2:
            return ()
        return (
            Finding(
                "repeatable",
                "it issues other instructions when it is run again with inputs: a kernel must do "
                "the same each time",
            ),
        )

    def _returned(self, profile: Profile) -> list[Finding]:
        """Outputs are compared by the tolerance of their type, so that must not change."""
        before, after = self.baseline.outputs, profile.outputs
        if before is None or after is None or before == after:
            return []
        if self.allow_lower_precision and [_extents(s) for s in before] == [
            _extents(s) for s in after
        ]:
            return []
        return [
            Finding(
                "outputs",
                f"returns {', '.join(after) or 'nothing'} instead of {', '.join(before)}",
            )
        ]

    def _launch(self, profile: Profile) -> list[Finding]:
        """A grid of its own would give a kernel other cores than its caller does."""
        before, after = self.baseline.launch, profile.launch
        if before is None or after is None or before == after:
            return []
        return [
            Finding(
                "launch",
                f"runs as {after} instead of {before}; a launch grid is the caller's to choose",
            )
        ]

    def _latency(self, profile: Profile) -> list[Finding]:
        latency = profile.latency_ms
        if latency is None:
            unknown = ", ".join(profile.unknown_instructions)
            return [Finding("latency", f"no latency over instructions of unknown cost: {unknown}")]
        floor = self.floor(profile).hard_ms
        if latency < floor * (1 - 1e-9):
            return [
                Finding(
                    "floor",
                    f"{latency:.4g} ms is below the static floor of {floor:.4g} ms: the profile "
                    "cannot be right",
                )
            ]
        return []

    def _written(self, profile: Profile) -> list[Finding]:
        written = profile.issued.hbm_write_bytes
        if self.written_bytes is not None and written < self.written_bytes:
            return [
                Finding(
                    "outputs",
                    f"writes {written} bytes, but the outputs have {self.written_bytes}",
                )
            ]
        return []

    def _precision(self, text: str, profile: Profile) -> list[Finding]:
        found = [
            Finding("precision", message)
            for message in narrowed(self.baseline_text, text, self.function, self.arguments)
        ]
        found += self._rounded(profile)
        slowest = widest_float(self.arguments)
        least = 4 / (ARRAY_FLOPS_PER_CYCLE * self.target["pe_effective_clock"])
        before, after = _array_ns_per_flop(self.baseline), _array_ns_per_flop(profile)
        if (
            slowest.nbytes == 4
            and before is not None
            and after is not None
            and before >= least * 0.999
            and after < least * 0.99
        ):
            found.append(
                Finding(
                    "precision",
                    "products take less Tensor Engine time than fp32 products need, so some "
                    "run in a narrower type than the baseline's",
                )
            )
        return found

    def _rounded(self, profile: Profile) -> list[Finding]:
        """Results that are computed with again are kept in types as wide as the baseline's."""
        before, after = self.baseline.intermediates, profile.intermediates
        if before is None or after is None:
            return []
        operands = _SIGNIFICAND_BITS.get(_narrowest_float(self.arguments).name, 24)
        found = []
        for reader, names in after.items():
            # Products take arguments as they come; everything else computes in float32.
            least = operands if reader == "tensor" else 24
            least = min([_SIGNIFICAND_BITS.get(n, 24) for n in before.get(reader, ())] or [least])
            found += [
                Finding(
                    "precision",
                    f"rounds results that it computes with again to {name}, which the baseline "
                    "keeps in wider types",
                )
                for name in names
                if _SIGNIFICAND_BITS.get(name, 24) < least
            ]
        return found


def _extents(spec: str) -> str:
    return spec.partition("[")[2]


def _array_ns_per_flop(profile: Profile) -> float | None:
    flops = profile.issued.matmul_flops + profile.issued.transpose_flops
    time = profile.issued.engine_ns.get("tensor")
    return time / flops if flops and time is not None else None


def narrowed(
    baseline: str, text: str, function: str, arguments: KernelArguments
) -> tuple[str, ...]:
    """Ways in which a kernel's source is less precise than the baseline's.

    Two things are looked at: data types that are named in the new text only, and the types
    of tiles that results are added up in.
    """
    before, after = _Types.of(baseline, function, arguments), _Types.of(text, function, arguments)
    if before is None or after is None:
        return ()
    messages = []
    known = {*before.named, *(s.dtype.name for s in tensor_specs(arguments))}
    for name in sorted(after.named - known):
        bits = _SIGNIFICAND_BITS.get(name, 24)
        if bits < max((_SIGNIFICAND_BITS.get(k, 0) for k in known), default=24):
            messages.append(f"uses {name}, which the baseline does not")
    least = min((*before.accumulators.values(), 24))
    for name, bits in sorted(after.accumulators.items()):
        if bits < least:
            messages.append(f"adds up in {name}, whose type is narrower than the baseline's")
    return tuple(messages)


@frozen(slots=True)
class _Types:
    """Data types that a function names, and significand bits of tiles that it adds up in."""

    named: frozenset[str]
    accumulators: Mapping[str, int]

    @classmethod
    def of(cls, text: str, function: str, arguments: KernelArguments) -> _Types | None:
        try:
            module = parse_python(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        last = function.rpartition(".")[2]
        node = next(
            (n for n in ast.walk(module) if isinstance(n, ast.FunctionDef) and n.name == last), None
        )
        if node is None:
            return None
        dtypes = {
            name: spec.dtype
            for name, spec in arguments.values.items()
            if isinstance(spec, TensorSpec)
        }
        for statement in ast.walk(node):
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                found = _created_dtype(statement.value, dtypes)
                for target in statement.targets:
                    if found is not None and isinstance(target, ast.Name):
                        dtypes[target.id] = found
        added = {
            name: _SIGNIFICAND_BITS[dtypes[name].name]
            for name in _added_up(node)
            if name in dtypes and dtypes[name].name in _SIGNIFICAND_BITS
        }
        return cls(frozenset(_named_dtypes(module)), added)


def _named_dtypes(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        name: object = None
        if isinstance(node, ast.Attribute):
            name = node.attr
        elif isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
            name = node.value.value if node.arg == "dtype" else None
        elif isinstance(node, ast.Name):
            name = node.id
        found = find_dtype(name) if isinstance(name, str) else None
        if found is not None and found.is_float:
            yield found.name


def _created_dtype(call: ast.Call, dtypes: Mapping[str, DType]) -> DType | None:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else ""
    if name not in ("ndarray", "zeros", "full", "ones", "empty", "zeros_like"):
        return None
    position = 2 if name == "full" else 1
    given = next((k.value for k in call.keywords if k.arg == "dtype"), None)
    if given is None and len(call.args) > position:
        given = call.args[position]
    if isinstance(given, ast.Attribute) and given.attr == "dtype":
        return dtypes.get(_base(given.value) or "")
    if isinstance(given, ast.Attribute):
        return find_dtype(given.attr)
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return find_dtype(given.value)
    return None


def _added_up(function: ast.AST) -> Iterator[str]:
    """Names of tiles that a statement adds to: ``t += x``, or an add from and to ``t``."""
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            name = _base(node.target)
            if name:
                yield name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call | ast.BinOp):
            target = _base(node.targets[0])
            if target and _adds(node.value) and target in _operands(node.value):
                yield target
        elif isinstance(node, ast.Call) and _adds(node):
            dst = next((k.value for k in node.keywords if k.arg == "dst"), None)
            name = _base(dst) if dst is not None else None
            others = [k.value for k in node.keywords if k.arg != "dst"] + list(node.args)
            if name and any(_base(o) == name for o in others):
                yield name


def _adds(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in ("add", "loop_reduce"):
        return True
    if node.func.attr != "tensor_tensor":
        return False
    return any(isinstance(n, ast.Attribute) and n.attr == "add" for n in ast.walk(node))


def _operands(node: ast.expr) -> set[str]:
    if isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Call):
        parts = [*node.args, *(k.value for k in node.keywords)]
    else:
        parts = []
    return {name for part in parts if (name := _base(part))}


def _base(node: ast.expr) -> str | None:
    """``t`` of ``t``, ``t[...]`` and ``t[...][...]``."""
    while isinstance(node, ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
