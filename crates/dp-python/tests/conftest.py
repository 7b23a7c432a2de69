"""What all tests share."""

import os
import subprocess
import sys
import warnings

import pytest

import continual_dp as cdp


@pytest.fixture
def dp():
    """The command line, where it is built."""
    program = os.environ.get("CONTINUAL_DP_PROGRAM")
    if not program:
        pytest.skip("CONTINUAL_DP_PROGRAM does not name the program dp")

    def run(*words, **more):
        return subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True, **more)

    return run


@pytest.fixture
def python():
    """Another process that runs a text of Python; returns what it printed."""

    def run(text, *words):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", text, *map(str, words)], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def week():
    return cdp.plan("count", steps=7, bounds=(0, 1), relation="zero-out", rho=0.5)


@pytest.fixture(autouse=True)
def quietly():
    """Tests repeat their noise on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cdp.NotPrivateWarning)
        yield
