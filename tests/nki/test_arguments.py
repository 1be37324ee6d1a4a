"""The SPEC language: what a kernel is called with."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.arguments import (
    DictSpec,
    Distribution,
    FileSpec,
    KernelArguments,
    ListSpec,
    LiteralSpec,
    NameSpec,
    ObjectSpec,
    SpecError,
    TensorSpec,
    TupleSpec,
    parse_distribution,
    parse_spec,
    split_top_level,
)
from accelopt_lsp.nki.dtypes import all_dtypes, get_dtype

F32, BF16 = get_dtype("f32"), get_dtype("bf16")

READ = [
    ("f32[4096,1024]", TensorSpec((4096, 1024), F32)),
    ("float32[ 128 , 512 ]", TensorSpec((128, 512), F32)),
    ("nl.bfloat16[3]", TensorSpec((3,), BF16)),
    ("bf16[]", TensorSpec((), BF16)),
    ("bf16[2]~normal", TensorSpec((2,), BF16)),
    ("bf16[2] ~ uniform", TensorSpec((2,), BF16, Distribution("uniform"))),
    ("f32[2]~ones", TensorSpec((2,), F32, Distribution("ones"))),
    ("f32[2]~zeros", TensorSpec((2,), F32, Distribution("zeros"))),
    ("f32[2]~N(1.5, 0.25)", TensorSpec((2,), F32, Distribution("normal", 1.5, 0.25))),
    ("@weights.npy", FileSpec("weights.npy")),
    ("@ a folder/w.npy ", FileSpec("a folder/w.npy")),
    ("1e-5", LiteralSpec(1e-5)),
    ("-3", LiteralSpec(-3)),
    ("True", LiteralSpec(True)),
    ("None", LiteralSpec(None)),
    ("-inf", LiteralSpec(float("-inf"))),
    ("'f32[2]'", LiteralSpec("f32[2]")),
    ("nl.float32", NameSpec("nl.float32")),
    ("float32", NameSpec("float32")),
    ("ActFnType.Gelu", NameSpec("ActFnType.Gelu")),
    ("(f32[2], 3)", TupleSpec((TensorSpec((2,), F32), LiteralSpec(3)))),
    ("(f32[2],)", TupleSpec((TensorSpec((2,), F32),))),
    ("()", TupleSpec(())),
    (
        "((1, 2), 'a,b)')",
        TupleSpec((TupleSpec((LiteralSpec(1), LiteralSpec(2))), LiteralSpec("a,b)"))),
    ),
    ("[f32[2], 3]", ListSpec((TensorSpec((2,), F32), LiteralSpec(3)))),
    ("[]", ListSpec(())),
    (
        "{'a': f32[2], 3: None}",
        DictSpec(((LiteralSpec("a"), TensorSpec((2,), F32)), (LiteralSpec(3), LiteralSpec(None)))),
    ),
    ("{'a:b': 'c:d'}", DictSpec(((LiteralSpec("a:b"), LiteralSpec("c:d")),))),
    ("{}", DictSpec(())),
    ("Config()", ObjectSpec("Config")),
    (
        "lib.types.Config (1, kind = Mode.FAST, x=bf16[128,512]~ones)",
        ObjectSpec(
            "lib.types.Config",
            (LiteralSpec(1),),
            (
                ("kind", NameSpec("Mode.FAST")),
                ("x", TensorSpec((128, 512), BF16, Distribution("ones"))),
            ),
        ),
    ),
    (
        "Outer(inner=Inner('a=b)'), sizes=[1, 2])",
        ObjectSpec(
            "Outer",
            (),
            (
                ("inner", ObjectSpec("Inner", (LiteralSpec("a=b)"),))),
                ("sizes", ListSpec((LiteralSpec(1), LiteralSpec(2)))),
            ),
        ),
    ),
    (r"('it\'s, ok', 1)", TupleSpec((LiteralSpec("it's, ok"), LiteralSpec(1)))),
]


@pytest.mark.parametrize(("text", "expected"), READ, ids=[t for t, _ in READ])
def test_reads(text, expected):
    assert parse_spec(text) == expected


REJECTED = [
    ("", "empty argument"),
    ("   ", "empty argument"),
    ("f33[2]", "unknown data type 'f33'"),
    ("f32[a]", "sizes must be integers"),
    ("f32[0]", "sizes must be positive"),
    ("f32[-1,2]", "sizes must be positive"),
    ("f32[2]~gamma", "unknown distribution 'gamma'"),
    ("f32[2]~N(1)", "unknown distribution"),
    ("f32[2]~N(a,b)", "unknown distribution"),
    ("f32[2]~N(1e400,1)", "unknown distribution"),
    ("f32[2]~N(0,-1)", "unknown distribution"),
    ("(1, 2", "unbalanced parentheses"),
    ("[1, 2", "unbalanced brackets"),
    ("(1, 2]", "unbalanced parentheses"),
    ("(1, 2) 3", "cannot read ' 3' behind"),
    ("{'a': 1", "unbalanced brackets"),
    ("{'a'}", "expected KEY: SPEC"),
    ("{nl.add: 1}", "keys of a dictionary are literals"),
    ("{f32[2]: 1}", "keys of a dictionary are literals"),
    ("Config(a=1, 2)", "stands behind a named argument"),
    ("Config(a=1, a=2)", "given a twice"),
    ("Config(a=)", "empty argument"),
    ("Config(", "unbalanced parentheses"),
    ("Config(a=x)", "cannot read 'x'"),
    ("for(1)", "cannot read 'for' as a class"),
    ("1j", "cannot use"),
    ("b'x'", "cannot use"),
    ("x", "cannot read 'x'"),
    ("f()()", "cannot read '()' behind"),
    ("1 +", "cannot read"),
    ("(" * 20000 + ")" * 20000, "too deeply"),
]


@pytest.mark.parametrize(("text", "message"), REJECTED, ids=[t[:20] for t, _ in REJECTED])
def test_rejects_with_a_reason(text, message):
    with pytest.raises(SpecError) as raised:
        parse_spec(text)
    assert message in str(raised.value)


@given(st.text(max_size=60))
def test_any_text_gives_a_spec_or_a_spec_error(text):
    try:
        parse_spec(text)
    except SpecError:
        pass


finite = st.floats(allow_nan=False, allow_infinity=False)
distributions = st.sampled_from([Distribution(k) for k in ("normal", "uniform", "ones", "zeros")])
normals = st.builds(
    Distribution, st.just("normal"), finite, st.floats(min_value=0, allow_infinity=False)
)
tensors = st.builds(
    TensorSpec,
    st.lists(st.integers(1, 1 << 30), max_size=5).map(tuple),
    st.sampled_from(all_dtypes()),
    distributions | normals,
)
literals = st.builds(
    LiteralSpec, st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
)
identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda s: not keyword.iskeyword(s)
)
names = st.builds(NameSpec, st.lists(identifiers, min_size=2, max_size=3).map(".".join))
files = st.builds(FileSpec, st.from_regex(r"[A-Za-z0-9_./-]{1,20}", fullmatch=True))
leaves = tensors | literals | names | files
paths = st.lists(identifiers, min_size=1, max_size=3).map(".".join)


def structures(inner):
    several = st.lists(inner, max_size=4).map(tuple)
    fields = st.lists(st.tuples(identifiers, inner), max_size=3, unique_by=lambda f: f[0])
    return (
        st.builds(TupleSpec, several)
        | st.builds(ListSpec, several)
        | st.builds(DictSpec, st.lists(st.tuples(literals, inner), max_size=3).map(tuple))
        | st.builds(ObjectSpec, paths, several, fields.map(tuple))
    )


specs = st.recursive(leaves, structures, max_leaves=8)


@given(specs)
def test_text_of_a_spec_reads_back_as_the_same_spec(spec):
    again = parse_spec(str(spec))
    assert again == spec
    assert str(again) == str(spec)


@given(st.lists(st.from_regex(r"[a-z]{1,3}(\([a-z,]*\))?('[a-z,(]*')?", fullmatch=True)))
def test_splitting_undoes_joining(parts):
    assert split_top_level(", ".join(parts)) == parts


def test_distribution_without_text_is_standard_normal():
    assert parse_distribution(None) == Distribution("normal", 0.0, 1.0)


def test_arguments_are_complete_when_nothing_is_missing():
    assert KernelArguments().complete
    assert not KernelArguments(missing=("x",)).complete
