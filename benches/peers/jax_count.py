"""A running count of many events by jax-privacy: noise of a buffered Toeplitz strategy, all steps in one compiled scan.

jax_count.py STEPS SIGMA THETA,... OMEGA,...

The library has no counter. This is its streaming matrix for the noise and its prefix sum, which is how its optimizers use
it with one coordinate; the scan spares it a call from Python for every step.
"""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy.matrix_factorization import buffered_toeplitz, streaming_matrix

from reply import reply, timed, version

jax.config.update("jax_enable_x64", True)


def numbers(text):
    return jnp.array([float(number) for number in text.split(",")])


if __name__ == "__main__":
    steps, sigma, decays, scales = sys.argv[1:]
    steps, sigma = int(steps), float(sigma)
    strategy = buffered_toeplitz.BufferedToeplitz.build(numbers(decays), numbers(scales))
    noise, prefix_sum = strategy.inverse_as_streaming_matrix(), streaming_matrix.prefix_sum()
    events = jnp.ones(steps)

    @jax.jit
    def release(key, events):
        def step(state, inputs):
            noise_state, sum_state = state
            event, z = inputs
            correlated, noise_state = noise.multiply_next(z, noise_state)
            count, sum_state = prefix_sum.multiply_next(event + sigma * correlated, sum_state)
            return (noise_state, sum_state), count

        start = (noise.init_multiply(events[0]), prefix_sum.init_multiply(events[0]))
        return jax.lax.scan(step, start, (events, jax.random.normal(key, events.shape)))[1]

    times = []
    for seed in range(4):
        counts, seconds = timed(lambda: release(jax.random.key(seed), events).block_until_ready())
        times.append(seconds)
    error = float(np.sqrt(np.mean((np.asarray(counts) - np.arange(1, steps + 1)) ** 2)))
    note = f"all events at once, one compiled scan, f64, {os.cpu_count()} threads"
    reply(
        version("jax-privacy"),
        "BLT noise and prefix sum",
        seconds=min(times[1:]),
        first_seconds=times[0],
        quality=error,
        note=note,
    )
