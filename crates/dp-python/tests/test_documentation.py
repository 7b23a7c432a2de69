"""Every public name has a description, and every example in one runs."""

import doctest
import importlib
import importlib.util
import inspect
import pathlib
import re

import pytest

import continual_dp as cdp

MODULES = ["continual_dp", "continual_dp.torch"]
if all(importlib.util.find_spec(name) for name in ("jax", "optax")):
    MODULES.append("continual_dp.optax")


def described():
    for module in map(importlib.import_module, MODULES):
        yield module.__name__, module
        for name in module.__all__:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or callable(thing)):
                continue
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                for inner, member in vars(thing).items():
                    # What a tuple brings with it is Python's.
                    if not inner.startswith("_") and not hasattr(tuple, inner):
                        yield f"{module.__name__}.{name}.{inner}", member


EXAMPLES = {
    name: doctest.DocTestParser().get_doctest(inspect.getdoc(thing) or "", {}, name, None, 0) for name, thing in described()
}


@pytest.mark.parametrize("name", [name for name, test in EXAMPLES.items() if test.examples])
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report = []
    runner.run(EXAMPLES[name], out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def test_everything_is_described_and_every_function_and_class_has_an_example():
    undescribed = [name for name, thing in described() if not inspect.getdoc(thing)]
    assert undescribed == []
    # What is only returned, and what is only raised, is shown where it is made.
    returned = {"Bracket", "Calibration", "Comparison", "Counts", "GraphRelease", "Live", "NoiseState", "Outcome", "Plan", "Stream"}
    without = []
    for name, thing in described():
        last = name.rsplit(".", 1)[-1]
        top = name[:1].isalpha() and any(name == f"{module}.{last}" for module in MODULES) and (inspect.isclass(thing) or inspect.isroutine(thing))
        if top and last not in returned and not (inspect.isclass(thing) and issubclass(thing, Exception)):
            if not EXAMPLES[name].examples:
                without.append(name)
    assert without == []


def test_the_version_is_the_workspaces():
    manifest = (pathlib.Path(__file__).parents[3] / "Cargo.toml").read_text()
    assert cdp.__version__ == re.search(r'^version = "(.*)"', manifest, re.M).group(1)
