"""Factorizations of the running count by jax-privacy: the time they take, and the strategy for others to evaluate.

jax_factorization.py dense N SECONDS BOUND GAP FOLDER
jax_factorization.py blt N BUFFERS mean|max
jax_factorization.py banded N BANDS
jax_factorization.py banded-columns N BANDS FOLDER
"""

import os
import sys
import time

import jax
import numpy as np
from jax_privacy.matrix_factorization import banded, buffered_toeplitz, dense, toeplitz

from reply import progress, reply, timed, version

jax.config.update("jax_enable_x64", True)
WHO = version("jax-privacy")
CONDITIONS = f"f64, {os.cpu_count()} threads"


def write_matrix(matrix, folder, name):
    path = os.path.join(folder, name + ".f64")
    np.asarray(matrix, dtype="<f8").tofile(path)
    return path


def run_dense(n, limit, bound, gap, folder):
    """One optimization, watched from its callback: where it would stop on its own, and how far it gets after that.

    `X` keeps a unit diagonal, so the loss is E2 and `loss / bound - 1` bounds the distance to the optimum.
    """
    at = []
    own_stop = None
    last = None

    def watch(step):
        nonlocal own_stop, last
        stops = dense.pg_tol_termination_fn(step)
        loss = float(step.loss)
        at.append(time.perf_counter())
        last = (loss, step.params)
        if len(at) % 10 == 0:
            progress(f"dense {n}: step {len(at)}, E2 = {loss:.5f}, {at[-1] - start:.0f} s")
        if stops and own_stop is None:
            own_stop = (len(at), step.params)
        return at[-1] - start > limit or loss <= bound * (1 + gap)

    start = time.perf_counter()
    dense.optimize(n, callback=watch)
    steps = np.diff(at)
    compilation = max(0.0, at[0] - start - float(np.median(steps))) if len(steps) else 0.0

    def report(variant, count, gram, name):
        total = at[count - 1] - start
        matrix = write_matrix(dense.strategy_from_X(gram), folder, name)
        note = f"{count} steps, {compilation:.1f} s of compilation not counted, {CONDITIONS}"
        reply(WHO, variant, seconds=total - compilation, first_seconds=total, matrix=matrix, note=note)

    if own_stop is not None:
        report("its own stop", *own_stop, f"dense-{n}-own-stop")
    reached = last[0] <= bound * (1 + gap)
    why = f"until the gap is {gap:g}" if reached else f"stopped after {limit:.0f} s"
    report(why, len(at), last[1], f"dense-{n}-last")


def without_compilation(optimize):
    """The result of an optimization, its time and that of its compilation, for functions that compile at every call.

    `optimize` takes the largest number of steps, or None for its own choice.
    """
    optimize(1)
    _, compilation = timed(lambda: optimize(1))
    progress(f"compiled in {compilation:.1f} s")
    result, seconds = timed(lambda: optimize(None))
    times = {"seconds": seconds - compilation, "first_seconds": seconds}
    return result, times, f"{compilation:.1f} s of compilation not counted, {CONDITIONS}"


def at_most(steps):
    return {} if steps is None else {"max_optimizer_steps": steps}


def run_blt(n, buffers, error):
    def optimize(steps):
        return buffered_toeplitz.optimize(
            n=n, error=error, min_buffers=buffers, max_buffers=buffers, **at_most(steps)
        )

    blt, times, note = without_compilation(optimize)
    reply(WHO, toeplitz=np.asarray(blt.toeplitz_coefs(n)).tolist(), note=note, **times)


def run_banded(n, bands):
    def optimize(steps):
        return toeplitz.optimize_banded_toeplitz(n, bands, **at_most(steps))

    band, times, note = without_compilation(optimize)
    coefficients = np.asarray(toeplitz.pad_coefs_to_n(band, n)).tolist()
    for variant, normalized in [("Toeplitz", False), ("Toeplitz, columns normalized", True)]:
        reply(WHO, variant, toeplitz=coefficients, normalized=normalized, note=note, **times)


def run_banded_columns(n, bands, folder):
    count = 0

    def watch(step):
        nonlocal count
        count += 1
        if count % 10 == 0:
            progress(f"banded columns {n}: step {count}, E2 = {float(step.loss):.5f}")

    strategy, seconds = timed(lambda: banded.optimize(n, bands=bands, callback=watch))
    matrix = write_matrix(strategy.materialize(), folder, f"banded-{n}")
    note = f"{count} steps, compilation counted, {CONDITIONS}"
    reply(WHO, "every column its own", seconds=seconds, matrix=matrix, note=note)


if __name__ == "__main__":
    kind, n, *rest = sys.argv[1:]
    if kind == "dense":
        run_dense(int(n), float(rest[0]), float(rest[1]), float(rest[2]), rest[3])
    elif kind == "blt":
        run_blt(int(n), int(rest[0]), rest[1])
    elif kind == "banded":
        run_banded(int(n), int(rest[0]))
    else:
        run_banded_columns(int(n), int(rest[0]), rest[1])
