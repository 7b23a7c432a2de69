"""Differential privacy under continual observation.

Publish a statistic after every step, or train a model, under one promise for all of it::

    plan = continual_dp.plan("count", steps=365, bounds=(0, 1), relation="zero-out", epsilon=1, delta=1e-6)
    with continual_dp.Release(plan) as release:
        for visits in days:
            print(release.step(visits))

============================  =================================================================
``plan``, ``compare``         the best strategy for a statistic, and how good any can be
``calibrate``, ``account``    how much noise a budget demands, and what noise promises
``Release``                   a published statistic, step by step, in exact integers
``Histogram``                 counts of items of a known universe
``Discovery``                 counts of items that nobody knows beforehand
``Quantiles``                 quantiles of numbers, and how many lie in a range
``Substrings``, ``Episodes``  counts of patterns in a stream of letters
``Graph``                     weights, cuts and functions of a graph that changes
``run``                       a dashboard of many numbers, from files of events or a data frame
``Noise``                     correlated noise, added in place to sums of clipped vectors
``PrivateGradients``          gradients of people in, noisy sums out
============================  =================================================================
"""

from ._core import (
    Accountant,
    Bracket,
    Calibration,
    Comparison,
    Counts,
    Discovery,
    Episodes,
    Graph,
    GraphRelease,
    Histogram,
    Live,
    Noise,
    Outcome,
    Plan,
    PrivateGradients,
    Quantiles,
    Release,
    Stream,
    Substrings,
    __version__,
    account,
    calibrate,
    compare,
    plan,
    run,
)
from ._errors import (
    ClosedError,
    ContinualError,
    DescriptionError,
    EntropyError,
    FileError,
    HorizonError,
    InputError,
    InternalError,
    KindError,
    LimitError,
    NotApplicableError,
    NotPrivateWarning,
    StateError,
)

__all__ = [
    "Accountant",
    "Bracket",
    "Calibration",
    "ClosedError",
    "Comparison",
    "ContinualError",
    "Counts",
    "DescriptionError",
    "Discovery",
    "EntropyError",
    "Episodes",
    "FileError",
    "Graph",
    "GraphRelease",
    "Histogram",
    "HorizonError",
    "InputError",
    "InternalError",
    "KindError",
    "LimitError",
    "Live",
    "Noise",
    "NotApplicableError",
    "NotPrivateWarning",
    "Outcome",
    "Plan",
    "PrivateGradients",
    "Quantiles",
    "Release",
    "StateError",
    "Stream",
    "Substrings",
    "__version__",
    "account",
    "calibrate",
    "compare",
    "plan",
    "run",
]
