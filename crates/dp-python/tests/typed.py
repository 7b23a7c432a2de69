"""What a type checker must accept; `mypy --strict` reads it, nothing runs it."""

from typing import Any

import numpy as np

import continual_dp as cdp

plan: cdp.Plan = cdp.plan("count", steps=7, bounds=(0, 1), relation="zero-out", epsilon=1, delta=1e-6)
both: cdp.Plan = cdp.plan(["count", "step"], steps=7, norm=1.0, dimension=3, relation="replace", rho=1, participation=(2, 3))
rows: list[dict[str, Any]] = plan.table
deviation: float = plan.standard_deviation(3)
with cdp.Release(plan) as release:
    number: float = release.step(1.0)
    for value in release.stream([0.0, 1.0]):
        print(value)
    print(release.steps(np.zeros(3)), release.done + 1)
sigma: float = cdp.calibrate(rho=0.5).sigma
epsilon: float = cdp.account(delta=1e-6, noise_multiplier=1.0).upper
