"""A banded strategy with cyclic Poisson sampling and its noise, planned by jax-privacy as its execution plan does it.

jax_banded.py STEPS BANDS RATE EPSILON DELTA

Replies with the strategy and, as its only answer, the noise multiplier; everybody is in one of as many groups as bands, and
added or removed.
"""

import os
import sys

import dp_accounting
import numpy as np
from jax_privacy import batch_selection
from jax_privacy.experimental import execution_plan
from jax_privacy.matrix_factorization import toeplitz

from reply import progress, reply, timed, version


def run(steps, bands, rate, epsilon, delta):
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE

    def optimize():
        return toeplitz.optimize_banded_toeplitz(n=steps, bands=bands, max_optimizer_steps=500)

    def calibrate(strategy):
        config = execution_plan.BandMFExecutionPlanConfig(
            iterations=steps,
            strategy=strategy,
            epsilon=epsilon,
            delta=delta,
            sampling_prob=rate,
            partition_type=batch_selection.PartitionType.INDEPENDENT,
            accountant=dp_accounting.pld.PLDAccountant(relation),
        )
        # SelfComposed(PoissonSampled(Gaussian)): the noise multiplier is at the bottom.
        return config.plan.dp_event.event.event.noise_multiplier

    progress(f"{bands} bands: strategy")
    strategy, searching = timed(optimize)
    progress(f"{bands} bands: noise")
    multiplier, calibrating = timed(lambda: calibrate(strategy))
    note = f"strategy {searching:.1f} s with compilation, noise {calibrating:.1f} s, {os.cpu_count()} threads"
    reply(
        version("jax-privacy"),
        f"with dp-accounting {dp_accounting.__version__}" if hasattr(dp_accounting, "__version__") else "",
        seconds=searching + calibrating,
        toeplitz=np.asarray(strategy, dtype=float).tolist(),
        answers=[float(multiplier)],
        note=note,
    )


if __name__ == "__main__":
    steps, bands, rate, epsilon, delta = sys.argv[1:]
    run(int(steps), int(bands), float(rate), float(epsilon), float(delta))
