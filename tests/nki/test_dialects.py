"""Binding calls to the signatures of both dialects."""

from __future__ import annotations

import inspect

import pytest

from accelopt_lsp.nki.apis import APIS, find_api
from accelopt_lsp.nki.dialects import (
    REPLACED,
    BindError,
    Dialect,
    Role,
    api,
    is_version,
    unavailable,
    version_key,
)

LEGACY, CURRENT = Dialect.LEGACY, Dialect.CURRENT
SIGNATURES = [
    pytest.param(api, dialect, id=f"{api.name}-{dialect}")
    for api in APIS.values()
    for dialect in api.signatures
]


@pytest.mark.parametrize(("api", "dialect"), SIGNATURES)
def test_binder_agrees_with_the_signature_text(api, dialect):
    """The compiled binder and the inspect module read a signature alike."""
    signature = api.signatures[dialect]
    namespace: dict[str, object] = {}
    exec(f"def f{signature.text}: pass", namespace)  # noqa: S102 - our own table
    expected = inspect.signature(namespace["f"])  # type: ignore[arg-type]
    assert signature.parameters == tuple(expected.parameters)
    required = {
        p.name: f"<{p.name}>"
        for p in expected.parameters.values()
        if p.default is p.empty and p.kind is not p.VAR_POSITIONAL
    }
    bound = expected.bind(**required)
    bound.apply_defaults()
    assert api.bind(dialect, (), required) == dict(bound.arguments)


def test_positional_and_keyword_arguments_meet():
    api = find_api("nisa.tensor_tensor")
    assert api is not None
    legacy = api.bind(LEGACY, ("a", "b", "add"), {"dtype": "bf16"})
    assert legacy == {
        "data1": "a",
        "data2": "b",
        "op": "add",
        "dtype": "bf16",
        "mask": None,
        "engine": "unknown",
    }
    current = api.bind(CURRENT, ("d", "a"), {"data2": "b", "op": "add"})
    assert current == {
        "dst": "d",
        "data1": "a",
        "data2": "b",
        "op": "add",
        "engine": "unknown",
        "name": None,
    }


REJECTED = [
    ("nisa.reciprocal", CURRENT, ("d",), {}, "data"),
    ("nisa.activation", LEGACY, ("exp", "x", "b"), {}, "positional"),
    ("nisa.activation", CURRENT, ("d",), {"data": "x", "op": "exp", "bais": 1}, "bais"),
    ("nisa.memset", CURRENT, ("d", 0), {"value": 1}, "value"),
    ("nl.par_dim", CURRENT, (128,), {}, "does not exist in the current dialect (only legacy)"),
    ("nl.ds", LEGACY, (1,), {}, "size"),
]


@pytest.mark.parametrize(("name", "dialect", "args", "kwargs", "text"), REJECTED)
def test_a_call_that_does_not_fit_names_the_parameter(name, dialect, args, kwargs, text):
    with pytest.raises(BindError) as raised:
        APIS[name].bind(dialect, args, kwargs)
    message = str(raised.value)
    assert text in message
    assert name.rpartition(".")[2] in message


@pytest.mark.parametrize("keyword", ["dtype", "mask"])
def test_keywords_that_early_current_versions_ignored_are_accepted(keyword):
    bound = APIS["nisa.tensor_copy"].bind(CURRENT, ("d", "s"), {keyword: None})
    assert keyword in bound


def test_legacy_accepts_further_keywords():
    bound = APIS["nl.load"].bind(LEGACY, ("x",), {"future": 1})
    assert bound["future"] == 1


def test_an_unknown_name_is_none():
    assert find_api("nl.no_such_function") is None


def test_packages():
    assert (LEGACY.package, CURRENT.package) == ("neuronxcc.nki", "nki")


def test_versions_say_which_signatures_exist():
    entry = api("nisa.x", Role.QUERY, "X.", legacy="()", current="()", since="0.3.0", until="0.4")
    current = entry.signatures[CURRENT]
    assert [current.exists_in(v) for v in ("0.2.0", "0.3", "0.4.0", "0.5.0")] == [
        False,
        True,
        True,
        False,
    ]
    assert entry.signatures[LEGACY].exists_in("0.1.0")
    assert version_key("0.10") > version_key("0.9.1")
    assert version_key("0.4") == version_key("0.4.0")


@pytest.mark.parametrize(
    ("name", "dialect", "version", "text"),
    [
        ("nl.arange", CURRENT, None, "nl.arange is not part of nki, only of neuronxcc.nki; use "),
        ("nl.fori_loop", LEGACY, None, "nl.fori_loop is not part of neuronxcc.nki, only of nki"),
        ("nl.fori_loop", CURRENT, None, ""),
        ("nl.fori_loop", CURRENT, "0.5", "nl.fori_loop exists from NKI 0.6.0 on, this is NKI 0.5"),
        ("nl.fori_loop", CURRENT, "0.6", ""),
        ("nisa.tensor_copy_dynamic_src", CURRENT, "0.3.0", ""),
        ("nisa.tensor_copy_dynamic_src", CURRENT, "0.4", "exists up to NKI 0.3.0, this is NKI 0.4"),
        ("nl.exp", CURRENT, "0.2", ""),
    ],
)
def test_who_has_a_name(name, dialect, version, text):
    found = unavailable(APIS[name], dialect, version)
    assert text in found if text else found == ""


def test_replaced_names_are_those_that_the_current_dialect_lacks_or_lost():
    for name in REPLACED:
        entry = APIS.get(name)
        assert entry is None or entry.varies(CURRENT), name


def test_what_a_version_is():
    assert [is_version(t) for t in ("0.6", "0.4.0", "latest", "", "0.x")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("nisa.activate2", "0.4.0"),
        ("nisa.exponential", "0.2.0"),
        ("nisa.get_nc_sub_version", "0.5.0"),
        ("nisa.activation", None),
    ],
)
def test_versions_of_compute_calls(name, since):
    assert APIS[name].signatures[CURRENT].since == since
