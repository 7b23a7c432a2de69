"""Calls that take long let other threads run."""

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


@pytest.mark.parametrize("make", [plan, compare, account, release, noise, gradients, histogram, quantiles])
def test_other_threads_run_during_a_long_call(make):
    call, turns, over = make(), [0], threading.Event()

    def count():
        while not over.is_set():
            turns[0] += 1
            time.sleep(0)

    other = threading.Thread(target=count)
    other.start()
    try:
        # While a call keeps the interpreter, nobody counts. On a busy machine the other thread may miss a call, but not all.
        seen = False
        for _ in range(6):
            before = turns[0]
            call()
            seen = turns[0] > before
            if seen:
                break
    finally:
        over.set()
        other.join()
    assert seen
