"""One step of correlated noise by jax-privacy, as its gradient privatizer makes it, compiled and warm.

jax_noise.py blt DIMENSION STEPS RUNS THETA,... OMEGA,...
jax_noise.py banded DIMENSION STEPS RUNS COEFFICIENT,...

The privatizer adds the noise to a gradient, which is kept at zero: one more read and addition per value than making the
noise alone. Its state is donated, so that it is updated in place.
"""

import os
import sys

import jax
import jax.numpy as jnp
from jax_privacy import noise_addition
from jax_privacy.matrix_factorization import buffered_toeplitz, toeplitz

from reply import progress, reply, timed, version

WHO = version("jax-privacy")


def numbers(text):
    return jnp.array([float(number) for number in text.split(",")])


def noising_matrix(kind, parameters):
    if kind == "blt":
        decays, scales = parameters
        strategy = buffered_toeplitz.BufferedToeplitz.build(
            numbers(decays), numbers(scales), dtype=numbers(decays).dtype
        )
        return strategy.inverse_as_streaming_matrix()
    return toeplitz.inverse_as_streaming_matrix(numbers(parameters[0]))


def measure(kind, parameters, dimension, steps, runs, dtype):
    privatizer = noise_addition.matrix_factorization_privatizer(
        noising_matrix(kind, parameters), stddev=1.0, prng_key=1, dtype=dtype
    )
    gradient = jnp.zeros(dimension, dtype)
    state = privatizer.init(gradient)
    update = jax.jit(privatizer.update, donate_argnums=1)

    def run(count):
        nonlocal state
        for _ in range(count):
            noisy, state = update(gradient, state)
            noisy.block_until_ready()

    _, first = timed(lambda: run(1))
    return first, min(timed(lambda: run(steps))[1] for _ in range(runs)) / steps


if __name__ == "__main__":
    kind, dimension, steps, runs, *parameters = sys.argv[1:]
    for precision in ["float32", "float64"]:
        jax.config.update("jax_enable_x64", precision == "float64")
        progress(f"{kind} noise of {dimension} coordinates, {precision}")
        first, seconds = measure(
            kind, parameters, int(dimension), int(steps), int(runs), jnp.dtype(precision)
        )
        bits = precision.removeprefix("float")
        note = f"jitted, state donated, {os.cpu_count()} threads"
        reply(WHO, f"f{bits}", seconds=seconds, first_seconds=first, note=note)
