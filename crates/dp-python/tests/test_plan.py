"""Planning, comparing, calibrating, accounting."""

import json
import pathlib
import traceback

import numpy as np
import pytest

import continual_dp as cdp

YEAR = dict(steps=365, bounds=(0, 1), relation="zero-out")


def test_a_plan_says_what_it_is():
    plan = cdp.plan("count", epsilon=1, delta=1e-6, **YEAR)
    assert plan.steps == 365 and plan.dimension == 1 and plan.exact and plan.grid == 2.0**-16
    assert 0 <= plan.gap < 0.02
    assert plan.lower_bound <= plan.mean_squared_error <= plan.largest_squared_error
    deviations = plan.standard_deviations()
    assert deviations.shape == (365,) and deviations.dtype == np.float64
    assert plan.standard_deviation(365) == deviations[-1]
    # The mean of the variances, computed elsewhere.
    assert np.mean(deviations**2) == pytest.approx(plan.mean_squared_error, rel=1e-9)
    assert deviations.max() ** 2 == pytest.approx(plan.largest_squared_error, rel=1e-9)
    assert plan.strategy in [row["name"] for row in plan.table]
    described = plan.to_dict()
    assert described == json.loads(json.dumps(described))
    assert described["strategy"] == plan.strategy and described["budget"] == {"approximate": {"epsilon": 1.0, "delta": 1e-6}}
    assert "count" in repr(plan) and plan.strategy in str(plan) and "nothing is below" in str(plan)
    html = plan._repr_html_()
    assert html.count("<tr>") == 1 + len(plan.table) and plan.strategy in html


def test_the_noise_is_that_of_the_mathematics():
    # Independent noise on every input: σ = 1/μ, and the prefix of t inputs has variance t σ².
    plan = cdp.plan("count", mu=0.5, strategy="identity", exact=False, **YEAR)
    assert plan.sigma == pytest.approx(2.0, rel=1e-12)
    assert np.allclose(plan.standard_deviations(), 2 * np.sqrt(np.arange(1, 366)), rtol=1e-12)
    # Replacing one of [-1, 2] by another changes it by 3.
    wide = cdp.plan("count", steps=5, bounds=(-1, 2), relation="replace", mu=1, strategy="identity", exact=False)
    assert wide.sigma == pytest.approx(3.0, rel=1e-12)
    repeated = cdp.plan("step", steps=9, bounds=(0, 1), relation="zero-out", mu=1, strategy="identity", exact=False, participation=(3, 2))
    assert repeated.sigma == pytest.approx(3**0.5, rel=1e-12)
    vector = cdp.plan("step", steps=3, norm=5.0, dimension=4, relation="zero-out", mu=1, strategy="identity", exact=False)
    assert 5 <= vector.sigma < 5 * (1 + 1e-10)


def test_several_statistics_cost_less_than_splitting():
    names = ["count", "window:7", "step"]
    joint = cdp.plan(names, steps=60, bounds=(0, 1), relation="zero-out", mu=1)
    assert joint.statistics == names
    for name in names:
        alone = cdp.plan(name, steps=60, bounds=(0, 1), relation="zero-out", mu=1)
        together = np.mean(joint.standard_deviations(name) ** 2)
        assert alone.mean_squared_error <= together * 1.001 < 2 * alone.mean_squared_error
    with pytest.raises(ValueError, match="one of count, window:7, step"):
        joint.standard_deviation(3)
    # The mean over the steps is what the deviations say, in either arithmetic: the two differ by a rounded strategy.
    rounded = cdp.plan(names, steps=60, bounds=(0, 1), relation="zero-out", mu=1, strategy="scaled-sqrt")
    floating = cdp.plan(names, steps=60, bounds=(0, 1), relation="zero-out", mu=1, strategy="scaled-sqrt", exact=False)
    for name in names:
        assert rounded.standard_deviation(60, name) == rounded.standard_deviations(name)[-1]
        assert np.allclose(rounded.standard_deviations(name), floating.standard_deviations(name), rtol=1e-3)
    assert rounded.mean_squared_error == pytest.approx(floating.mean_squared_error, rel=1e-3)
    # More weight, less error.
    heavy = cdp.plan(names, steps=60, bounds=(0, 1), relation="zero-out", mu=1, weights=[10, 1, 1])
    assert heavy.standard_deviations("count").mean() < joint.standard_deviations("count").mean()


def test_without_an_end():
    plan = cdp.plan("count", doubling=4, bounds=(0, 1), relation="zero-out", mu=1, exact=False)
    assert plan.steps is None and plan.standard_deviation(1000) > plan.standard_deviation(1)
    exact = cdp.plan("count", doubling=4, bounds=(0, 1), relation="zero-out", rho=0.5)
    assert exact.exact and exact.steps is None and exact.standard_deviation(1000) > exact.standard_deviation(1)
    with pytest.raises(cdp.InputError, match="one published statistic"):
        cdp.plan(["count", "step"], doubling=4, bounds=(0, 1), relation="zero-out", rho=0.5)


def test_pure_budgets_have_exact_noise_only():
    plan = cdp.plan("count", steps=16, bounds=(0, 1), relation="zero-out", epsilon=1)
    assert plan.exact and "1-differential privacy" in plan.budget
    with pytest.raises(cdp.InputError, match="pure epsilon"):
        cdp.plan("count", steps=16, bounds=(0, 1), relation="zero-out", epsilon=1, exact=False)


def test_compare_and_calibrate_agree_with_the_command_line(dp):
    there = json.loads(dp("calibrate", "--epsilon", 1, "--delta", 1e-6, "--json").stdout)
    here = cdp.calibrate(epsilon=1, delta=1e-6)
    assert (here.sigma, here.mu, here.rho) == (there["sigma"], there["mu"], there["rho_equivalent"])
    there = json.loads(dp("calibrate", "--rho", 0.3, "--change", 2.5, "--json").stdout)
    here = cdp.calibrate(rho=0.3, change=2.5)
    assert (here.sigma, here.mu, here.rho) == (there["sigma"], there["mu"], there["rho_equivalent"])
    there = json.loads(dp("plan", "--workload", "window:5", "--steps", 40, "--json").stdout)
    here = cdp.compare("window:5", steps=40)
    assert here.chosen == there["chosen"]
    # Two builds may round an optimum differently in its last bit; noise and releases are compared to the last one elsewhere.
    assert [row["mse"] for row in here.table] == pytest.approx([row["mse"] for row in there["strategies"]], rel=1e-12)
    there = json.loads(dp("account", "--noise-multiplier", 1.1, "--delta", 1e-5, "--sampling-rate", 0.01, "--steps", 1000, "--json").stdout)
    here = cdp.account(noise_multiplier=1.1, delta=1e-5, sampling_rate=0.01, steps=1000)
    assert (here.upper, here.lower) == (there["epsilon"], there["epsilon_lower"])


def test_auto_is_the_first_that_is_good_enough_and_the_table_shows_all():
    plan = cdp.plan("count", epsilon=1, delta=1e-6, **YEAR)
    best = plan.table[0]
    # Within half a percent of what nothing can beat, or the best there is.
    assert plan.gap <= 0.005 or plan.strategy == best["name"]
    assert len(plan.table) > 5 and best["gap"] <= plan.gap
    assert [row["name"] for row in plan.table] == [row["name"] for row in cdp.compare("count", steps=365).table]


def test_the_accountant_composes():
    twice = cdp.Accountant().gaussian(2.0).gaussian(2.0).epsilon(1e-6)
    assert twice.lower <= twice.upper == cdp.Accountant().gaussian(2.0, times=2).epsilon(1e-6).upper
    # Two steps of σ = 2 are one of σ = √2, whose ε is known exactly.
    assert twice.upper == pytest.approx(cdp.Accountant().gaussian(2**0.5).epsilon(1e-6).upper, rel=1e-9)


@pytest.mark.parametrize(
    "change, error, words",
    [
        (dict(workload="cuont"), ValueError, "`cuont` is not a workload"),
        (dict(workload=3.5), TypeError, "workload is a float"),
        (dict(workload=[]), ValueError, "empty"),
        (dict(relation="both"), ValueError, "zero-out or replace"),
        (dict(steps=0), ValueError, "steps"),
        (dict(steps=None), ValueError, "how many steps"),
        (dict(bounds=None), ValueError, "what can one person be"),
        (dict(bounds=(1, 0)), ValueError, ""),
        (dict(bounds=1), TypeError, "bounds is a int"),
        (dict(bounds=(0, 1, 2)), TypeError, "bounds is a tuple"),
        (dict(bounds=(0, float("nan"))), ValueError, ""),
        (dict(norm=1.0), ValueError, "one of bounds"),
        (dict(epsilon=-1), ValueError, "epsilon"),
        (dict(epsilon=1e9), ValueError, "promises nothing"),
        (dict(delta=2), ValueError, "delta"),
        (dict(rho=1), ValueError, "one form"),
        (dict(metric="median"), ValueError, "mse or max"),
        (dict(strategy="best"), ValueError, "normalized-sqrt"),
        (dict(strategy="group", workload="window:3"), cdp.NotApplicableError, "group"),
        (dict(participation=(0, 1)), ValueError, ""),
        (dict(participation=7), TypeError, "participation is a int"),
        (dict(weights=[1.0]), ValueError, "several statistics"),
        (dict(workload=["count", "step"], weights=[1.0]), ValueError, "1 numbers for 2"),
        (dict(grid=-1.0), ValueError, ""),
        (dict(grid=1.0, exact=False), ValueError, "exact plans"),
        (dict(clip=1.0, bounds=None), ValueError, "dimension"),
        (dict(clip="tight", bounds=None), TypeError, "clip is a str"),
        (dict(clip=[(2, 1.0), (3, 0.0)], bounds=None), ValueError, "clipping norm"),
        (dict(clip=[(2, 1.0), (3, 1.0)], bounds=None, dimension=6), ValueError, "5 coordinates together"),
        (dict(memory=1, exact=False, strategy="sqrt"), cdp.NotApplicableError, "memory"),
    ],
)
def test_bad_arguments_are_refused_by_name(change, error, words):
    arguments = dict(workload="count", steps=8, bounds=(0, 1), relation="zero-out", epsilon=1.0, delta=1e-6)
    arguments.update(change)
    workload = arguments.pop("workload")
    with pytest.raises(error) as refused:
        cdp.plan(workload, **arguments)
    assert isinstance(refused.value, cdp.ContinualError)
    assert words in str(refused.value)


@pytest.mark.parametrize("name, value", [("steps", "many"), ("steps", 2.5), ("norm", "long"), ("exact", "yes"), ("weights", 3)])
def test_arguments_of_another_kind_are_named(name, value):
    with pytest.raises(TypeError) as refused:
        cdp.plan("count", **{"steps": 8, "relation": "zero-out", "mu": 1, name: value})
    assert name in "".join(traceback.format_exception_only(type(refused.value), refused.value))


@pytest.mark.parametrize("value", [-1, 2**64, 10**30])
@pytest.mark.parametrize(
    "name, call",
    [
        ("steps", lambda value: cdp.plan("count", steps=value, bounds=(0, 1), relation="zero-out", mu=1)),
        ("dimension", lambda value: cdp.plan("count", steps=8, clip=1.0, dimension=value, relation="zero-out", mu=1)),
        ("steps", lambda value: cdp.Histogram(["a"], steps=value, relation="zero-out", mu=1)),
        ("items", lambda value: cdp.Histogram(["a"], items=value, steps=8, relation="zero-out", mu=1)),
        ("times", lambda value: cdp.Accountant().gaussian(1.0, times=value)),
        ("steps", lambda value: cdp.account(delta=1e-5, noise_multiplier=1.0, steps=value)),
    ],
)
def test_numbers_that_count_nothing_are_named(name, call, value):
    with pytest.raises(cdp.ContinualError) as refused:
        call(value)
    assert isinstance(refused.value, ValueError)
    assert name in "".join(traceback.format_exception_only(type(refused.value), refused.value))


def test_control_c_stops_a_plan(python):
    # A plan that takes far longer than the test waits.
    text = """
import continual_dp as cdp, os, signal, threading, time
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    cdp.plan("momentum:0.9", steps=1024, bounds=(0, 1), relation="zero-out", mu=1, strategy="optimal", participation=(8, 64))
    print("finished")
except KeyboardInterrupt:
    print("stopped")
"""
    assert python(text).strip() == "stopped"


REFUSED = json.loads((pathlib.Path(__file__).parent / "golden.json").read_text())["refusals"]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["argument"])
def test_refusals_have_the_words_of_rust(case):
    # The file is checked by a test of the Rust libraries as well.
    arguments = dict(workload="count", steps=8, bounds=(0, 1), relation="zero-out", mu=1.0)
    arguments[case["argument"]] = case["value"]
    workload = arguments.pop("workload")
    with pytest.raises(cdp.ContinualError) as refused:
        cdp.plan(workload, **arguments)
    assert str(refused.value) == case["words"]
