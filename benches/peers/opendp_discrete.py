"""Samples of OpenDP's exact discrete Gaussian.

opendp_discrete.py SAMPLES SIGMA

Noise is asked for a whole vector at a time. What it costs to carry the vector between Python and the library is measured
with a scale of zero and taken off.
"""

import sys

import opendp.prelude as dp

from reply import progress, reply, timed, version

dp.enable_features("contrib")


def seconds(scale, zeros):
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    noise = space >> dp.m.then_gaussian(scale)
    return min(timed(lambda: noise(zeros))[1] for _ in range(3))


if __name__ == "__main__":
    samples, scale = int(sys.argv[1]), float(sys.argv[2])
    zeros = [0] * samples
    carrying = seconds(0.0, zeros)
    progress(f"opendp: discrete noise, σ = {scale:g}")
    spent = seconds(scale, zeros) - carrying
    note = f"vectors of {samples}, {carrying / samples * 1e9:.0f} ns a value of carrying not counted, 1 thread"
    reply(version("opendp"), seconds=spent / samples, note=note)
