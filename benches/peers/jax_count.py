"""A running count of many events by jax-privacy: noise of a buffered Toeplitz strategy.

jax_count.py STEPS SIGMA THETA,... OMEGA,...

The library has no counter. This is its streaming matrix for the noise and its prefix sum, which is how its optimizers use
it with one coordinate: once in a scan that knows all events, and once as a stream, where each event is a call of a
compiled step.
"""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy.matrix_factorization import buffered_toeplitz, streaming_matrix

from reply import progress, reply, timed, version

jax.config.update("jax_enable_x64", True)
WHO = version("jax-privacy")
CONDITIONS = f"f64, {os.cpu_count()} threads"
# Calls from Python that are measured one by one.
CALLS = 20_000


def numbers(text):
    return jnp.array([float(number) for number in text.split(",")])


if __name__ == "__main__":
    steps, sigma, decays, scales = sys.argv[1:]
    steps, sigma = int(steps), float(sigma)
    strategy = buffered_toeplitz.BufferedToeplitz.build(numbers(decays), numbers(scales))
    noise, prefix_sum = strategy.inverse_as_streaming_matrix(), streaming_matrix.prefix_sum()
    start = (noise.init_multiply(jnp.zeros(())), prefix_sum.init_multiply(jnp.zeros(())))

    def step(state, event, z):
        noise_state, sum_state = state
        correlated, noise_state = noise.multiply_next(z, noise_state)
        count, sum_state = prefix_sum.multiply_next(event + sigma * correlated, sum_state)
        return (noise_state, sum_state), count

    @jax.jit
    def all_at_once(key, events):
        inputs = (events, jax.random.normal(key, events.shape))
        return jax.lax.scan(lambda state, input: step(state, *input), start, inputs)[1]

    @jax.jit
    def one(key, state, event):
        key, now = jax.random.split(key)
        state, count = step(state, event, jax.random.normal(now))
        return key, state, count

    def stream(count):
        key, state = jax.random.key(1), start
        for _ in range(count):
            key, state, released = one(key, state, 1.0)
            float(released)

    progress(f"jax-privacy: {steps} events at once")
    events, times = jnp.ones(steps), []
    for seed in range(4):
        counts, seconds = timed(lambda: all_at_once(jax.random.key(seed), events).block_until_ready())
        times.append(seconds)
    error = float(np.sqrt(np.mean((np.asarray(counts) - np.arange(1, steps + 1)) ** 2)))
    note = f"all events known beforehand, one compiled scan, {CONDITIONS}"
    reply(WHO, "at once", seconds=min(times[1:]), first_seconds=times[0], quality=error, note=note)

    progress(f"jax-privacy: {CALLS} events one by one")
    _, first = timed(lambda: stream(1))
    seconds = timed(lambda: stream(CALLS))[1] / CALLS
    note = f"one event at a time, a compiled call each, from {CALLS} of them, {CONDITIONS}"
    reply(WHO, "stream", seconds=seconds * steps, first_seconds=first + seconds * steps, note=note)
