"""The arithmetic of calibration, on machines whose constants are known."""

from __future__ import annotations

import re
import tomllib

import numpy as np
import pytest
from attrs import evolve

from accelopt_lsp.nki.targets import Constant, get_target
from accelopt_lsp.profiler.fitting import (
    HUBER,
    Observation,
    Prior,
    Problem,
    bounded_solve,
    huber_loss,
    huber_weights,
    priors,
)
from accelopt_lsp.profiler.simulator.variants import is_continuous
from accelopt_lsp.workbench.calibration import Calibration
from accelopt_lsp.workbench.calibration_store import TARGETS, with_constants

TRN1 = get_target("trn1")


def prior(name, value, spread=10.0, low=0.01, high=100.0, rate=False):
    return Prior(name, value, spread, value * low, value * high, rate, "test")


def test_costs_of_rates_are_inverse():
    rate, time = prior("r", 20.0, rate=True), prior("t", 20.0)
    assert (rate.cost(10.0), time.cost(10.0)) == (2.0, 0.5)
    assert rate.constant(rate.cost(7.0)) == pytest.approx(7.0)
    assert time.constant(time.cost(7.0)) == pytest.approx(7.0)
    assert rate.bounds == pytest.approx((0.01, 100.0))


def test_every_calibrated_constant_has_a_prior_within_its_bounds():
    found = {p.name: p for p in priors(TRN1)}
    wanted = {n for n, c in TRN1.constants.items() if c.status == "calibrated" and is_continuous(c)}
    assert set(found) == wanted
    for name, known in found.items():
        assert known.low <= known.value <= known.high, name
        assert known.low <= TRN1[name] <= known.high, name
        assert known.spread > 0
        assert known.source
        assert known.rate is (TRN1.constants[name].unit in {"GHz", "B/ns", "GB/s"}), name


@pytest.mark.parametrize(("present", "low", "high"), [(40.0, 20.0, 80.0), (0.0, 0.0, 2.0)])
def test_a_constant_without_a_prior_stays_near_what_it_is(present, low, high):
    strange = Constant(present, "ns", "somewhere", "calibrated")
    target = evolve(TRN1, constants={"new_ns": strange})
    [found] = priors(target)
    assert (found.low, found.high) == (low, high)
    assert found.source == "present value"
    assert found.cost(present) == pytest.approx(1.0 if present else 0.0)


def test_huber():
    size = np.array([0.0, 1.0, HUBER, 2 * HUBER])
    assert huber_weights(size) == pytest.approx([1, 1, 1, 0.5])
    assert huber_weights(-size) == pytest.approx([1, 1, 1, 0.5])
    assert huber_loss(size[:2]) == pytest.approx(0.5)
    assert huber_loss(size[3:]) == pytest.approx(1.5 * HUBER**2)


def _solve(matrix, target, *, center=1.0, spread=1e6, low=-1e9, high=1e9):
    matrix = np.array(matrix, dtype=float)
    ones = np.ones(matrix.shape[1])
    return bounded_solve(
        matrix, np.array(target, dtype=float), center * ones, spread * ones, low * ones,
        high * ones,
    )  # fmt: skip


def test_solve_without_bounds_is_least_squares():
    matrix = [[1, 2], [3, 1], [1, -1], [2, 2]]
    target = [5, 6, -1, 7]
    expected = np.linalg.lstsq(np.array(matrix, float), np.array(target, float), rcond=None)[0]
    assert _solve(matrix, target) == pytest.approx(expected, abs=1e-6)


def test_what_nothing_depends_on_stays_at_its_prior():
    assert _solve([[1, 0]], [4], center=2.0) == pytest.approx([4.0, 2.0])


def test_a_stiff_prior_wins():
    assert _solve([[1.0]], [4.0], center=2.0, spread=1e-3) == pytest.approx([2.0], abs=1e-5)
    assert _solve([[1.0]], [4.0], center=2.0, spread=1.0) == pytest.approx([3.0])


def test_a_variable_at_its_bound_leaves_the_rest_to_the_others():
    # Without the bound 8 and 1; with the first at 3, the other takes what is left.
    found = _solve([[1, 1], [1, -1]], [9, 7], high=3.0)
    assert found[0] == 3.0
    assert found[1] == pytest.approx(1.0)


COUNTS = {
    # kernel: (family, Vector instructions, Vector ns of elements, bytes, transfers)
    "a": ("x", 1000, 40_000, 3e6, 10),
    "b": ("x", 4000, 30_000, 2e6, 40),
    "c": ("y", 500, 90_000, 9e6, 20),
    "d": ("z", 2000, 10_000, 1e6, 300),
}
PRIORS = (prior("issue", 50.0), prior("rate", 17.0, rate=True), prior("completion", 1300.0))


def machine(issue, rate, completion):
    """Log latency in ms, and Vector's share of the true latency, by kernel."""
    figures = []
    for name, (_, count, elements, size, transfers) in COUNTS.items():
        vector = count * issue + elements
        latency = vector + size / rate + transfers * completion
        figures += [np.log(latency * 1e-6), vector / TRUE_NS[name]]
    return np.array(figures)


TRUTH = (70.0, 18.0, 2000.0)
TRUE_NS = {
    name: count * TRUTH[0] + elements + size / TRUTH[1] + transfers * TRUTH[2]
    for name, (_, count, elements, size, transfers) in COUNTS.items()
}


def problem(truth=None, present=(40.0, 17.0, 1300.0)):
    truth = machine(*TRUTH) if truth is None else truth
    costs = np.array([p.cost(v) for p, v in zip(PRIORS, present, strict=True)])

    def model(costs):
        return machine(*(p.constant(c) for p, c in zip(PRIORS, costs, strict=True)))

    steps = np.eye(3) * 0.01
    jacobian = np.array([(model(costs + s) - model(costs - s)) / 0.02 for s in steps]).T
    observations = tuple(
        Observation(name, family, kind, float(truth[2 * n + (kind == "vector")]))
        for n, (name, (family, *_)) in enumerate(COUNTS.items())
        for kind in ("latency", "vector")
    )
    return Problem(PRIORS, observations, costs, model(costs), jacobian), model


def fit(found, model, left_out=None, steps=6):
    costs = found.engine_costs(left_out)
    for _ in range(steps):
        costs = found.next_costs(costs, model(costs), left_out)
    return found.constants(costs)


def test_what_occupies_an_engine_follows_from_active_time_alone():
    found, _ = problem()
    assert list(found.occupying) == [True, False, False]
    costs = found.engine_costs(None)
    assert found.constants(costs)["issue"] == pytest.approx(70.0, rel=1e-3)
    # Latencies play no part in it.
    strange = machine(*TRUTH)
    strange[0::2] += 3.0
    other, _ = problem(strange)
    assert other.engine_costs(None) == pytest.approx(costs)


@pytest.mark.parametrize("left_out", [None, "x", "y", "z"])
def test_a_known_machine_is_found_again(left_out):
    found, model = problem()
    constants = fit(found, model, left_out)
    assert constants == pytest.approx(
        dict(zip(("issue", "rate", "completion"), TRUTH, strict=True)), rel=0.02
    )


def test_a_family_that_is_left_out_has_no_say():
    changed = machine(*TRUTH)
    changed[4:6] += 1.0
    (odd, odd_model), (plain, plain_model) = problem(changed), problem()
    assert fit(odd, odd_model, "y") == pytest.approx(fit(plain, plain_model, "y"))
    assert fit(odd, odd_model) != pytest.approx(fit(plain, plain_model), rel=1e-3)


def test_the_objective_falls():
    found, model = problem()
    costs = found.engine_costs(None)
    before = found.objective(costs, model(costs), None)
    after = found.next_costs(costs, model(costs), None)
    assert found.objective(after, model(after), None) < before


def calibration(**constants):
    return Calibration(TRN1, (), frozenset(), constants, {}, ())


def test_fitted_constants_replace_values_and_nothing_else():
    text = TARGETS.read_text("utf-8")
    found = with_constants(text, calibration(launch_ns=12345.678, dma_engine_rate=17.98765))
    before, after = tomllib.loads(text), tomllib.loads(found)
    assert after["trn1"]["launch_ns"].pop("value") == 12350
    assert after["trn1"]["dma_engine_rate"].pop("value") == 17.99
    for name in ("launch_ns", "dma_engine_rate"):
        before["trn1"][name].pop("value")
    assert after == before
    assert len(re.findall("\n", found)) == len(re.findall("\n", text))


def test_the_same_constants_leave_the_text_alone():
    text = TARGETS.read_text("utf-8")
    assert with_constants(text, calibration(launch_ns=TRN1["launch_ns"])) == text


def test_bounds_hold():
    found, model = problem()
    tight = tuple(evolve(p, high=p.value * 1.1) for p in PRIORS)
    constants = fit(evolve(found, priors=tight), model)
    assert constants["issue"] == pytest.approx(55.0)
    assert constants["completion"] <= 1430.0 + 1e-6
