"""The judge child: makes inputs, runs the reference, compares outputs. Runs no kernel."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.profiler.simulator import verify
from accelopt_lsp.profiler.simulator.elements import Array, from_carrier
from accelopt_lsp.profiler.simulator.inputs import (
    ObjectValue,
    Prepared,
    Reference,
    TensorValue,
    load_reference,
    prepare,
)
from accelopt_lsp.profiler.simulator.protocol import Channel, JudgeTask
from accelopt_lsp.profiler.simulator.signature import Parameter, kernel_parameters

CACHE_VERSION = 1
FOLLOWED_ELEMENTS = 1 << 16
"""Inputs of a reference up to this size keep their values in a run that only traces shapes:
control flow may depend on them."""


class Judge:
    """One job's judge."""

    def __init__(self, task: JudgeTask, channel: Channel) -> None:
        self.task = task
        self.channel = channel
        self.folder = Path(task.access.scratch)
        self.reference: Reference | None = None
        self.prepared: dict[int, Prepared] = {}
        self.cache = Path(task.cache) if task.cache else None
        self.key = ""

    def run(self) -> None:
        """Answer until the parent hangs up."""
        parameters = kernel_parameters(self.task.source, self.task.function)
        if self.task.reference is not None:
            self.reference = load_reference(Path(self.task.reference))
        self.key = self._cache_key()
        if not self.task.seeds:
            self._send_shapes(parameters)
            return
        for seed in self.task.seeds:
            prepared = self._prepare(parameters, seed)
            encoded = {
                name: self._encode(f"input-{seed}-{number}", value)
                for number, (name, value) in enumerate(prepared.arguments.items())
            }
            self.channel.send("inputs", seed=seed, arguments=encoded)
            if self.reference is not None and not self._cached(seed):
                self.prepared[seed] = prepared
        if self.reference is not None:
            for seed in self.task.seeds:
                self._expect(seed)
        known = [s for s in self.task.seeds if self._cached(s)]
        self.channel.send("ready", expected=known)
        while (message := self.channel.receive()) is not None:
            self._answer(message)

    def _answer(self, message: dict[str, Any]) -> None:
        seed = int(message["seed"])
        outputs = [self._output(o) for o in message["outputs"]]
        if message["command"] == "expect":
            values = [a for a, _ in outputs]
            self._store(seed, values, single=bool(message["single"]))
            self.channel.send("expected", seed=seed, finite=_finite(values))
            return
        verdict = self._compare(seed, outputs, single=bool(message["single"]))
        error = verdict.error if np.isfinite(verdict.error) else None
        self.channel.send(
            "verdict", seed=seed, correct=verdict.correct, error=error, message=verdict.message
        )

    def _prepare(self, parameters: tuple[Parameter, ...], seed: int) -> Prepared:
        return prepare(
            parameters,
            self.task.specs,
            frozenset(self.task.explicit),
            self.reference,
            seed,
            Path(self.task.path).parent,
            self.task.rescaled.get(seed),
        )

    def _send_shapes(self, parameters: tuple[Parameter, ...]) -> None:
        prepared = self._prepare(parameters, 0)
        encoded = {
            name: self._encode(f"input-{number}", value, most=FOLLOWED_ELEMENTS)
            for number, (name, value) in enumerate(prepared.arguments.items())
        }
        self.channel.send("inputs", seed=None, arguments=encoded)

    def _encode(self, name: str, value: Any, most: int | None = None) -> Any:
        """A value for the kernel child; tensors go through a file in the scratch folder.

        Args:
            most: tensors with more elements go without their values.
        """
        if isinstance(value, TensorValue):
            if most is not None and value.carrier.size > most:
                return _shape_only(value)
            file = self.folder / f"{name}.npy"
            np.save(file, value.carrier)
            return {**_shape_only(value), "file": file.name}
        return _encode_structure(name, value, lambda n, v: self._encode(n, v, most))

    # Expected outputs.

    def _cache_key(self) -> str:
        digest = hashlib.sha256()
        parts: list[Any] = [CACHE_VERSION, np.__version__, self.task.cache_key]
        if self.reference is not None:
            parts.append(self.reference.path.read_text("utf-8"))
        else:
            parts.append(self.task.function)
        parts += [sorted(self.task.specs.items()), sorted(self.task.explicit)]
        for part in parts:
            digest.update(json.dumps(part).encode() + b"\0")
        return digest.hexdigest()[:32]

    def _place(self, seed: int) -> Path:
        scaled = "".join(f"-{value:g}" for value in self.task.rescaled.get(seed, ()))
        return (self.cache or self.folder) / f"expected-{self.key}-{seed}{scaled}"

    def _cached(self, seed: int) -> bool:
        return self._place(seed).with_suffix(".json").exists()

    def _expect(self, seed: int) -> None:
        """Run the reference, unless its outputs are known."""
        prepared = self.prepared.pop(seed, None)
        if prepared is None or self._cached(seed):
            return
        assert self.reference is not None
        with np.errstate(all="ignore"):
            result = self.reference.call("forward", *prepared.forward)
        single = not isinstance(result, tuple | list)
        values = [result] if single else list(result)
        self._store(seed, [np.asarray(v) for v in values], single=single)

    def _store(self, seed: int, values: list[Array], *, single: bool) -> None:
        """Keep expected outputs; whole files only, so that a kill leaves nothing broken."""
        place = self._place(seed)
        place.parent.mkdir(parents=True, exist_ok=True)
        for number, value in enumerate(values):
            plain = value.astype(np.float32) if value.dtype.kind == "V" else value
            temporary = place.with_name(f"{place.name}-{number}.{os.getpid()}.tmp")
            with open(temporary, "wb") as file:
                np.save(file, plain)
            os.replace(temporary, place.with_name(f"{place.name}-{number}.npy"))
        temporary = place.with_name(f"{place.name}.{os.getpid()}.json.tmp")
        temporary.write_text(json.dumps({"outputs": len(values), "single": single}))
        os.replace(temporary, place.with_suffix(".json"))

    def _expected(self, seed: int) -> tuple[list[Array], bool]:
        place = self._place(seed)
        about = json.loads(place.with_suffix(".json").read_text())
        values = [
            np.load(place.with_name(f"{place.name}-{n}.npy"), mmap_mode="r")
            for n in range(about["outputs"])
        ]
        return values, about["single"]

    # Comparison.

    def _output(self, data: dict[str, Any]) -> tuple[Array, Any]:
        file = self.folder / os.path.basename(str(data["file"]))
        values = np.load(file, mmap_mode="r", allow_pickle=False)
        with contextlib.suppress(OSError):
            file.unlink()
        return values, get_dtype(str(data["dtype"]))

    def _compare(
        self, seed: int, outputs: list[tuple[Array, Any]], *, single: bool
    ) -> verify.Verdict:
        if not self._cached(seed):
            return verify.Verdict(False, float("inf"), "there is nothing to compare with")
        expected, expected_single = self._expected(seed)
        if seed in self.task.rescaled and not _finite(expected):
            return verify.Verdict(False, float("inf"), "what is expected there is not finite")
        dtypes = [dtype for _, dtype in outputs]
        actual: list[Any] = [values for values, _ in outputs]
        if self.reference is not None and self.reference.has("transform_nki_outputs"):
            given = [from_carrier(v, d) for v, d in outputs]
            transformed = self.reference.call(
                "transform_nki_outputs",
                given[0] if single and len(given) == 1 else tuple(given),
                expected[0] if expected_single else tuple(expected),
            )
            actual = list(transformed) if isinstance(transformed, list | tuple) else [transformed]
        rtol = None if self.reference is None else self.reference.rtol
        return verify.compare(actual, expected, dtypes, rtol)


def _finite(values: list[Array]) -> bool:
    """Whether no expected output overflowed."""
    return all(bool(np.isfinite(v).all()) for v in values if np.issubdtype(v.dtype, np.floating))


def _shape_only(value: Any) -> Any:
    if isinstance(value, TensorValue):
        return {"shape": list(value.carrier.shape), "dtype": value.element.name}
    return _encode_structure("", value, lambda _, v: _shape_only(v))


def _encode_structure(name: str, value: Any, encode: Callable[[str, Any], Any]) -> Any:
    """What holds other values for the kernel child; each of those is encoded by ``encode``."""
    if isinstance(value, tuple | list):
        parts = [encode(f"{name}-{i}", v) for i, v in enumerate(value)]
        return {"items" if isinstance(value, tuple) else "list": parts}
    if isinstance(value, dict):
        entries = enumerate(value.items())
        return {"entries": [[key, encode(f"{name}-{i}", v)] for i, (key, v) in entries]}
    if isinstance(value, ObjectValue):
        fields = enumerate(value.fields.items(), len(value.args))
        return {
            "call": value.name,
            "args": [encode(f"{name}-{i}", v) for i, v in enumerate(value.args)],
            "fields": [[field, encode(f"{name}-{i}", v)] for i, (field, v) in fields],
        }
    return encode_plain(value)


def encode_plain(value: Any) -> Any:
    """A number, string or dotted name for the kernel child."""
    if value is None or isinstance(value, int | float | str | bool):
        return {"literal": value}
    return {"name": str(value)}
