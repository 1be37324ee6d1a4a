"""A mind for the softmax of the examples."""

from __future__ import annotations

import json

from tests.agents.llm_server import Answer, code_of

THREE_STEPS = """        shifted = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=shifted, data=x_tile, op0=nl.subtract, operand0=row_max)
        exponent = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=exponent, op=nl.exp, data=shifted)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=exponent, axis=1)
"""
ONE_STEP = """        minus_max = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=minus_max, data=row_max, op0=nl.multiply, operand0=-1.0)
        exponent = nl.ndarray((P, columns), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=exponent, op=nl.exp, data=x_tile, bias=minus_max,
            reduce_op=nl.add, reduce_res=total,
        )
"""


def fusing(role: str, messages: list[dict[str, str]], number: int) -> Answer:
    """A model that knows one good step, and one that is fast because it is wrong."""
    prompt = messages[1]["content"]
    if role == "planner":
        plans = [
            {"title": "Let the exponential add up its results", "rationale": "one pass less"},
            {"title": "Leave out the maximum", "rationale": "it seems to work without"},
        ]
        return Answer(json.dumps({"plans": plans}))
    if role == "executor":
        code = code_of(messages)
        if "Leave out" in prompt:
            wrong = code.replace("nisa.tensor_scalar(dst=shifted", "nisa.tensor_copy(dst=shifted")
            wrong = wrong.replace("data=x_tile, op0=nl.subtract, operand0=row_max)", "src=x_tile)")
            wrong = wrong.replace("op=nl.exp", "op=nl.tanh")
            return Answer(f"```python\n{wrong}```")
        return Answer(f"```python\n{code.replace(THREE_STEPS, ONE_STEP)}```")
    if role == "fixer":
        return Answer("I cannot help with that.")
    lesson = {"title": "Fuse exponential and sum", "strategy": "The Scalar Engine adds up."}
    return Answer(json.dumps({**lesson, "before": "", "after": ""}))
