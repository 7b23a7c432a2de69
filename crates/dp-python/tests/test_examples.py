"""The examples run, and become pages."""

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize(
    "name, needs, printed",
    [
        ("publish_a_series", [], r"9\d% of the bands hold the truth"),
        ("dashboard_from_a_frame", ["pyarrow"], r"published 14 of 31 steps, 0 of them now"),
        ("train_with_jax", ["jax", "optax"], r"9\d\.\d% of the people are on the right side"),
    ],
)
def test_an_example_becomes_a_page(name, needs, printed, tmp_path):
    for package in needs:
        pytest.importorskip(package)
    page = tmp_path / "page.html"
    words = [sys.executable, "-W", "ignore", EXAMPLES / "render.py", EXAMPLES / f"{name}.py", page]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert re.search(printed, text) and "<h1>" in text
    # A page loads nothing.
    assert not re.search(r"(src|href)=|@import|url\(", text)


def test_every_example_is_tested():
    scripts = {path.stem for path in EXAMPLES.glob("*.py")} - {"pictures", "render"}
    assert scripts == {"publish_a_series", "dashboard_from_a_frame", "train_with_jax"}
