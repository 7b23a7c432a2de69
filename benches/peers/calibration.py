"""The smallest standard deviation for which a Gaussian mechanism of sensitivity 1 is (ε, δ)-private, by several libraries.

calibration.py dp-accounting|opendp|jax-privacy SECONDS EPSILON,... DELTA,...
calibration.py judge FILE

`judge` reads answers, `{"points": [[ε, δ], ...], "answers": [[σ, ...], ...]}`, and replies with σ/σ* - 1 for each, σ* solved to
fifty digits: negative where the noise is less than the promise needs.
"""

import json
import math
import sys
import time

from reply import progress, reply, version


def dp_accounting_solver():
    import dp_accounting

    return dp_accounting.get_sigma_gaussian, "exact profile"


def opendp_solver():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def solve(epsilon, delta):
        def mechanism(scale):
            zero_concentrated = dp.m.make_gaussian(*space, scale=scale)
            return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(zero_concentrated), delta)

        return dp.binary_search_param(mechanism, d_in=1.0, d_out=(epsilon, delta), T=float)

    return solve, "through zCDP, its only measure for Gaussian noise"


def jax_privacy_solver():
    from jax_privacy.accounting import accountants, analysis, calibrate

    accountant = analysis.DpsgdTrainingAccountant(
        dp_accountant_config=accountants.PldAccountantConfig()
    )

    def solve(epsilon, delta):
        return calibrate.calibrate_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=delta,
            accountant=accountant,
            batch_sizes=1,
            num_updates=1,
            num_samples=1,
            tol=1e-6,
        )

    return solve, "privacy loss distribution, tol 1e-6"


SOLVERS = {
    "dp-accounting": dp_accounting_solver,
    "opendp": opendp_solver,
    "jax-privacy": jax_privacy_solver,
}


def run(package, patience, epsilons, deltas):
    solve, how = SOLVERS[package]()
    # The first call loads what is loaded lazily.
    solve(1.0, 1e-5)
    answers, failures, spent, times = [], [], 0.0, []
    for delta in deltas:
        for epsilon in epsilons:
            point = f"ε = {epsilon:g}, δ = {delta:g}"
            progress(f"{package}: {point}")
            answer, start = None, time.perf_counter()
            try:
                if spent > patience:
                    raise TimeoutError(f"more than {patience:g} s spent before it")
                answer = float(solve(epsilon, delta))
                if not math.isfinite(answer):
                    raise ArithmeticError(f"the answer is {answer}")
                times.append(time.perf_counter() - start)
            except Exception as failure:
                answer = None
                failures.append(f"{point}: {(str(failure).strip() or repr(failure)).splitlines()[0]}")
            spent += time.perf_counter() - start
            answers.append(answer)
    note = how + (f"; {len(failures)} of {len(answers)} not solved, first {failures[0]}" if failures else "")
    seconds = sum(times) / len(times) if times else None
    reply(version(package), seconds=seconds, answers=answers, note=note)


def smallest_deviation(epsilon, delta):
    import mpmath as mp

    epsilon, delta = mp.mpf(epsilon), mp.mpf(delta)

    def excess(logarithm):
        sigma = mp.exp(logarithm)
        shift = epsilon * sigma
        half = 1 / (2 * sigma)
        return mp.log(mp.ncdf(half - shift) - mp.exp(epsilon) * mp.ncdf(-half - shift)) - mp.log(delta)

    low, high = mp.mpf(-10), mp.mpf(30)
    while high - low > mp.mpf(10) ** -50:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return mp.exp(high)


def judge(path):
    import mpmath as mp

    # The two terms of the profile may agree in their first forty digits.
    mp.mp.dps = 120
    with open(path) as file:
        question = json.load(file)
    exact = [smallest_deviation(*point) for point in question["points"]]
    for answers in question["answers"]:
        relative = [None if s is None else float(mp.mpf(s) / e - 1) for s, e in zip(answers, exact)]
        reply(version("mpmath"), answers=relative)


if __name__ == "__main__":
    if sys.argv[1] == "judge":
        judge(sys.argv[2])
    else:
        package, patience, *lists = sys.argv[1:]
        run(package, float(patience), *[[float(number) for number in text.split(",")] for text in lists])
