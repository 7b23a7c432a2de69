"""ε of many steps of Gaussian noise with Poisson sampling, by a privacy loss distribution.

accounting.py INTERVAL NOISE:RATE:STEPS:DELTA,...

Replies with the time of each point, the shortest of three, and its pessimistic answer, on a grid of losses of the given
interval.
"""

import sys

from dp_accounting.pld import privacy_loss_distribution

from reply import progress, reply, timed, version


def epsilon(noise, rate, steps, delta, interval):
    step = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=interval
    )
    return step.self_compose(int(steps)).get_epsilon_for_delta(delta)


def run(interval, points):
    # The first call loads what is loaded lazily.
    epsilon(1.0, 0.1, 10, 1e-5, 1e-3)
    for noise, rate, steps, delta in points:
        progress(f"dp-accounting: noise {noise:g}, rate {rate:g}, {steps:g} steps")
        runs = [timed(lambda: epsilon(noise, rate, steps, delta, interval)) for _ in range(3)]
        reply(
            version("dp-accounting"),
            f"interval {interval:g}",
            seconds=min(seconds for _, seconds in runs),
            answers=[float(runs[0][0])],
        )


if __name__ == "__main__":
    points = [[float(number) for number in point.split(":")] for point in sys.argv[2].split(",")]
    run(float(sys.argv[1]), points)
