# %% [markdown]
# # Publish a series
#
# A museum publishes how many visitors it has had so far, every time its gate has opened: with a visitor, or without one. All
# numbers together must not say whether a particular visitor came.

# %%
import numpy as np

import continual_dp as cdp

# %% [markdown]
# The plan comes first and looks at no data: 400 openings of the gate, each with a number between 0 and 1, and a visitor who
# might as well not have come (`zero-out`).

# %%
plan = cdp.plan("count", steps=400, bounds=(0, 1), relation="zero-out", epsilon=1, delta=1e-6)
print(plan)

# %% [markdown]
# Releases are made one by one, as data arrives, or many at once. A sealed state keeps the run between two processes: each step is
# released once, whatever crashes. (This page uses noise that anybody can repeat, so that it looks the same every time; leave
# `reproducible_seed` out for anything that is to be private.)

# %%
visits = (np.sin(np.arange(400) / 20) + np.random.default_rng(1).normal(size=400) > 0).astype(float)
with cdp.Release(plan, reproducible_seed=1) as release:
    published = release.steps(visits)

# %% [markdown]
# The truth is known here only because the data are invented. The noise hardly grows, because the noise of each step
# cancels most of that of the steps before.

# %%
deviations = plan.standard_deviations()
inside = np.mean(np.abs(published - np.cumsum(visits)) <= 1.96 * deviations)
print(f"{published[-1]:.1f} visits so far, ± {1.96 * deviations[-1]:.1f}; {inside:.0%} of the bands hold the truth")

# %%
from pictures import band  # a few lines of SVG beside this file

picture = band(published, deviations, np.cumsum(visits), "Visits so far: released, with its 95 % band, and the truth")
