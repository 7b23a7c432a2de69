"""Calls that take long let other threads run."""

import sys
import threading
import time

import numpy as np
import pytest

import continual_dp as cdp

YEAR = dict(bounds=(0, 1), relation="zero-out", mu=1.0)


def learning(dimension):
    return cdp.plan("count", steps=20, clip=1.0, dimension=dimension, relation="zero-out", mu=1.0, strategy="blt")


def plan():
    return lambda: cdp.plan("count", steps=250, strategy="optimal", **YEAR)


def compare():
    return lambda: cdp.compare("count", steps=100)


def account():
    return lambda: cdp.account(noise_multiplier=0.8, delta=1e-6, sampling_rate=0.01, steps=2000)


def release():
    live = cdp.Release(cdp.plan("count", steps=2_000_000, strategy="blt", exact=False, **YEAR))
    return lambda: live.steps(np.ones(300_000))


def noise():
    live, values = cdp.Noise(learning(1_000_000)), np.zeros(1_000_000)
    return lambda: live.add(values)


def gradients():
    live, rows = cdp.PrivateGradients(learning(10_000)), np.ones((500, 10_000))
    return lambda: live.add_many(rows)


def histogram():
    live, items = cdp.Histogram(range(100), steps=20, relation="zero-out", mu=1.0), np.arange(500_000) % 100
    return lambda: live.push(items)


def quantiles():
    live, values = cdp.Quantiles(0, 1000, 0.1, steps=20, relation="zero-out", mu=1.0), np.linspace(0, 1000, 500_000)
    return lambda: live.push(values)


def others_run_during(call):
    """Whether another thread counts on while a call lasts."""
    turns, over = [0], threading.Event()

    def count():
        while not over.is_set():
            turns[0] += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    other = threading.Thread(target=count)
    try:
        # No thread is asked to make room for another: whoever counts does so because the call let go of the interpreter.
        sys.setswitchinterval(1000)
        other.start()
        # On a busy machine the other thread may miss a call, but not all.
        for _ in range(6):
            before = turns[0]
            call()
            if turns[0] > before:
                return True
        return False
    finally:
        over.set()
        sys.setswitchinterval(interval)
        other.join()


@pytest.mark.parametrize("make", [plan, compare, account, release, noise, gradients, histogram, quantiles])
def test_other_threads_run_during_a_long_call(make):
    assert others_run_during(make())


def test_a_call_that_keeps_the_interpreter_is_noticed():
    numbers = list(range(100_000))
    assert not others_run_during(lambda: sorted(numbers, key=float))
