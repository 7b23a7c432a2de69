"""Live releases: their numbers, their states, and what they refuse."""

import copy
import csv
import io
import json
import os
import pathlib
import pickle
import struct
import threading

import numpy as np
import pytest

import continual_dp as cdp

GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden.json").read_text())


def plan_of(case):
    return cdp.plan(case["workload"], **{**case["arguments"], "bounds": tuple(case["arguments"]["bounds"])})


@pytest.mark.parametrize("case", GOLDEN["releases"], ids=lambda case: case["name"])
def test_the_same_seeds_give_the_same_numbers_as_rust(case):
    # The file is checked by a test of the Rust libraries as well.
    release = cdp.Release(plan_of(case), reproducible_seed=case["seed"])
    inputs = np.array(case["inputs"])
    dimension = case["arguments"]["dimension"]
    found = release.steps(inputs if dimension == 1 else inputs.reshape(-1, dimension))
    assert [struct.pack(">d", value).hex() for value in found.ravel()] == case["released"]


@pytest.mark.parametrize("exact", [True, False])
def test_the_same_seeds_give_the_same_numbers_as_the_command_line(dp, tmp_path, exact):
    inputs = [0.25, 1, 0, 0.5, 1, 1, 0, 0.125]
    (tmp_path / "in.csv").write_text("visits\n" + "\n".join(map(str, inputs)) + "\n")
    words = ["release", "--input", tmp_path / "in.csv", "--column", "visits", "--bounds", "0:1", "--relation", "zero-out"]
    words += ["--steps", 20, "--workload", "count", "--epsilon", 1, "--delta", 1e-6, "--reproducible-seed", 9]
    lines = csv.DictReader(io.StringIO(dp(*words, *([] if exact else ["--idealized"])).stdout))
    there = [(float(line["release"]), float(line["standard_deviation"])) for line in lines]
    more = dict(epsilon=1, delta=1e-6, exact=exact)
    plan = cdp.plan("count", steps=20, bounds=(0, 1), relation="zero-out", **more)
    release = cdp.Release(plan, reproducible_seed=9)
    # `auto` is the same strategy, and the numbers are the same to the last bit.
    here = [(release.step(value), plan.standard_deviation(release.done)) for value in inputs]
    assert here == there


def test_without_an_end_the_numbers_are_those_of_the_command_line(dp, tmp_path):
    inputs = [0.25, 1, 0, 0.5, 1, 1, 0, 0.125, 1, 1, 1]
    (tmp_path / "in.csv").write_text("visits\n" + "\n".join(map(str, inputs)) + "\n")
    words = ["release", "--input", tmp_path / "in.csv", "--column", "visits", "--bounds", "0:1", "--relation", "zero-out"]
    words += ["--doubling", 4, "--workload", "count", "--epsilon", 1, "--delta", 1e-6, "--reproducible-seed", 9]
    there = [float(line["release"]) for line in csv.DictReader(io.StringIO(dp(*words).stdout))]
    plan = cdp.plan("count", doubling=4, bounds=(0, 1), relation="zero-out", epsilon=1, delta=1e-6)
    assert plan.exact and plan.steps is None
    release = cdp.Release(plan, reproducible_seed=9)
    assert list(release.steps(inputs)) == there and release.remaining is None


def test_one_by_one_together_and_streamed_are_the_same(week):
    inputs = [1, 0, 1, 1, 0.5, 0, 1]
    make = lambda: cdp.Release(week, reproducible_seed=4)
    single = make()
    one_by_one = [single.step(value) for value in inputs]
    assert all(type(value) is float for value in one_by_one)
    assert list(make().steps(inputs)) == one_by_one
    assert list(make().steps(np.array(inputs, dtype=np.float32))) == one_by_one
    assert list(make().stream(value for value in inputs)) == one_by_one
    both = make()
    assert [*both.steps(inputs[:3]), *both.steps(inputs[3:])] == one_by_one
    assert len(both.last) == 4 and both.last[0] == (4, one_by_one[3])
    assert (both.done, both.remaining) == (7, 0)


def test_vectors_and_several_statistics(tmp_path):
    plan = cdp.plan(["count", "step"], steps=5, bounds=(0, 1), dimension=3, relation="zero-out", rho=1)
    inputs = np.arange(15).reshape(5, 3) / 15
    whole = cdp.Release(plan, reproducible_seed=1).steps(inputs)
    assert sorted(whole) == ["count", "step"] and whole["count"].shape == (5, 3)
    # The count is the sum of the noisy steps: one noise for both.
    assert np.allclose(np.cumsum(whole["step"], axis=0), whole["count"])
    single = cdp.Release(plan, reproducible_seed=1)
    for row in range(5):
        step = single.step(inputs[row])
        assert np.array_equal(step["count"], whole["count"][row])
        assert np.array_equal(step["step"], whole["step"][row])
    # The reading goes on through a state, acknowledged or not, and from a save.
    path = tmp_path / "both.state"
    with cdp.Release(plan, reproducible_seed=1) as release:
        release.step(inputs[0])
        release.save(path)
        release.steps(inputs[1:3])
    with cdp.Release.open(path, plan, reproducible_seed=1) as release:
        assert [step for step, _ in release.last] == [2, 3]
        assert np.array_equal(release.last[1][1]["count"], whole["count"][2])
        release.acknowledge()
        assert release.last == []
    with cdp.Release.open(path, plan, reproducible_seed=1) as release:
        assert np.array_equal(release.steps(inputs[3:])["count"], whole["count"][3:])


def test_noise_has_the_planned_deviation():
    # n = 4000 releases of independent noise; the mean square is within 1 ± 0.12 with probability above 1 - 1e-6 (χ²_4000),
    # and noise times 2/3 or 3/2 has 0.44 or 2.25.
    plan = cdp.plan("step", steps=4000, bounds=(0, 1), relation="zero-out", mu=0.5, strategy="identity")
    values = cdp.Release(plan, reproducible_seed=12).steps(np.zeros(4000))
    ratio = np.mean((values / plan.standard_deviation(1)) ** 2)
    assert abs(ratio - 1) < 0.12
    assert not abs(ratio * 4 / 9 - 1) < 0.12 and not abs(ratio * 9 / 4 - 1) < 0.12
    # Secret noise is different every time.
    first, second = (cdp.Release(plan).steps(np.zeros(50)) for _ in range(2))
    assert not np.array_equal(first, second)


def test_a_state_survives_and_is_locked(week, tmp_path, python):
    path = tmp_path / "visits.state"
    with cdp.Release.open(path, week) as release:
        monday = release.step(1)
        with pytest.raises(cdp.StateError, match="another process"):
            cdp.Release.open(path, week)
        # And from a process that really is another one.
        text = """
import continual_dp as cdp, sys
week = cdp.plan("count", steps=7, bounds=(0, 1), relation="zero-out", rho=0.5)
try:
    cdp.Release.open(sys.argv[1], week)
except cdp.StateError as error:
    print("another process" in str(error))
"""
        assert python(text, path).strip() == "True"
    with cdp.Release.open(path, week) as release:
        assert release.last == [(1, monday)] and release.done == 1
        release.step(0)
    other = cdp.plan("count", steps=8, bounds=(0, 1), relation="zero-out", rho=0.5)
    with pytest.raises(cdp.StateError, match="steps was 7, now 8"):
        cdp.Release.open(path, other)
    with pytest.raises(cdp.StateError):
        cdp.Release.open(path, week, reproducible_seed=1)
    with cdp.Release(week) as second:
        with pytest.raises(cdp.StateError, match="another run already"):
            second.save(path)
        second.step(1)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(cdp.StateError, match="seal is broken"):
        cdp.Release.open(path, week)


def test_live_objects_refuse_copies_and_say_why(week):
    release = cdp.Release(week)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="two copies would answer with one noise"):
            attempt(release)
    with pytest.raises(TypeError):
        cdp.Release.__new__(cdp.Release)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_cannot_go_on(week, python):
    text = """
import continual_dp as cdp, os
release = cdp.Release(cdp.plan("count", steps=7, bounds=(0, 1), relation="zero-out", rho=0.5))
child = os.fork()
if child == 0:
    try:
        release.step(1)
        os._exit(1)
    except cdp.ClosedError as error:
        os._exit(0 if "another process" in str(error) else 2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), release.step(1) is not None)
"""
    assert python(text).split() == ["0", "True"]


def test_closed_is_closed(week):
    with cdp.Release(week) as release:
        release.step(0)
    assert release.closed and repr(release) == "Release(closed)"
    for attempt in (lambda: release.step(0), lambda: release.steps([0]), lambda: release.done, lambda: release.last):
        with pytest.raises(cdp.ClosedError, match="closed"):
            attempt()
    release.close()


@pytest.mark.parametrize(
    "value, error, words",
    [
        (float("nan"), ValueError, "NaN"),
        (float("inf"), ValueError, "infinite"),
        (17.25, ValueError, "outside the declared bounds [0, 1]"),
        ("a lot", TypeError, "input has dtype <U5"),
        (None, TypeError, "input has dtype object"),
        (1 + 2j, TypeError, "input has dtype complex128"),
        ([1, 0], ValueError, "input has shape [2]"),
        ([[1.0]], ValueError, "input has shape [1, 1]"),
        (np.array([1], dtype="datetime64[s]"), TypeError, "datetime64"),
    ],
)
def test_bad_inputs_change_nothing_and_are_not_repeated(week, value, error, words):
    release, untouched = (cdp.Release(week, reproducible_seed=3) for _ in range(2))
    with pytest.raises(error) as refused:
        release.step(value)
    assert isinstance(refused.value, cdp.ContinualError)
    assert words in str(refused.value)
    assert "17" not in str(refused.value) and "a lot" not in str(refused.value)
    assert release.done == 0 and release.step(1) == untouched.step(1)


def test_an_array_is_taken_as_a_whole_or_not_at_all(week):
    release, untouched = (cdp.Release(week, reproducible_seed=3) for _ in range(2))
    for bad in ([0, 1, 17.25], [0, float("nan")], np.zeros(8), np.zeros((2, 2)), np.zeros((1, 1, 1))):
        with pytest.raises(cdp.ContinualError):
            release.steps(bad)
        assert release.done == 0
    with pytest.raises(cdp.HorizonError, match="all 7 planned steps"):
        release.steps(np.zeros(8))
    assert len(release.steps([])) == 0
    strided = np.array([[1, 9], [0, 9], [1, 9]], dtype=np.float64)[:, 0]
    assert list(release.steps(strided)) == list(untouched.steps([1, 0, 1]))
    release.steps(np.zeros(4))
    with pytest.raises(cdp.HorizonError):
        release.step(0)


def test_threads_take_turns(week):
    plan = cdp.plan("count", steps=400, bounds=(0, 1), relation="zero-out", rho=1, strategy="blt")
    release = cdp.Release(plan)
    workers = [threading.Thread(target=lambda: [release.step(1) for _ in range(100)]) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert release.done == 400


def test_a_warning_says_what_is_not_private(week):
    with pytest.warns(cdp.NotPrivateWarning, match="NOT PRIVATE"):
        cdp.Release(week, reproducible_seed=1)
