import pathlib
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Optional, TypeVar, Union

import numpy as np
import numpy.typing as npt

Path = Union[str, "PathLike[str]"]
Participation = Union[str, Sequence[int]]
Workload = Union[str, Sequence[str], Sequence[float]]
Number = Union[float, npt.ArrayLike]

__version__: str

_Live = TypeVar("_Live", bound="Live")

class Live:
    @property
    def done(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self: _Live) -> _Live: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...

class Bracket:
    upper: float
    lower: float
    def __float__(self) -> float: ...

class Accountant:
    def __init__(self) -> None: ...
    def gaussian(self, noise_multiplier: float, times: int = 1) -> Accountant: ...
    def sampled_gaussian(self, noise_multiplier: float, rate: float, times: int = 1) -> Accountant: ...
    def laplace(self, scale: float, times: int = 1) -> Accountant: ...
    def pure(self, epsilon: float, times: int = 1) -> Accountant: ...
    def epsilon(self, delta: float) -> Bracket: ...
    def delta(self, epsilon: float) -> Bracket: ...

def account(
    *,
    delta: float,
    noise_multiplier: Optional[float] = None,
    epsilon: Optional[float] = None,
    sampling_rate: float = 1.0,
    steps: int = 1,
) -> Bracket: ...

class Plan:
    @property
    def workload(self) -> str: ...
    @property
    def statistics(self) -> list[str]: ...
    @property
    def steps(self) -> Optional[int]: ...
    @property
    def dimension(self) -> Optional[int]: ...
    @property
    def strategy(self) -> str: ...
    @property
    def budget(self) -> str: ...
    @property
    def sigma(self) -> float: ...
    @property
    def exact(self) -> bool: ...
    @property
    def grid(self) -> Optional[float]: ...
    @property
    def mean_squared_error(self) -> float: ...
    @property
    def largest_squared_error(self) -> float: ...
    @property
    def lower_bound(self) -> float: ...
    @property
    def gap(self) -> float: ...
    @property
    def table(self) -> list[dict[str, Any]]: ...
    def standard_deviation(self, step: int, statistic: Optional[str] = None) -> float: ...
    def standard_deviations(self, statistic: Optional[str] = None) -> npt.NDArray[np.float64]: ...
    def simultaneous_band(self, failure: float = 0.05) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...
    def _repr_html_(self) -> str: ...

def plan(
    workload: Workload,
    *,
    relation: str,
    steps: Optional[int] = None,
    doubling: Optional[int] = None,
    bounds: Optional[Sequence[float]] = None,
    norm: Optional[float] = None,
    clip: Optional[Union[float, Sequence[tuple[int, float]]]] = None,
    dimension: Optional[int] = None,
    participation: Optional[Participation] = None,
    metric: str = "mse",
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    rho: Optional[float] = None,
    mu: Optional[float] = None,
    strategy: str = "auto",
    exact: Optional[bool] = None,
    grid: Optional[float] = None,
    weights: Optional[Sequence[float]] = None,
    memory: Optional[int] = None,
) -> Plan: ...

class Comparison:
    @property
    def chosen(self) -> str: ...
    @property
    def lower_bound(self) -> float: ...
    @property
    def table(self) -> list[dict[str, Any]]: ...
    def to_dict(self) -> dict[str, Any]: ...
    def _repr_html_(self) -> str: ...

def compare(
    workload: Workload,
    *,
    steps: int,
    participation: Optional[Participation] = None,
    metric: str = "mse",
    weights: Optional[Sequence[float]] = None,
    dimension: int = 1,
    memory: Optional[int] = None,
    seconds: float = 20.0,
    pure: bool = False,
) -> Comparison: ...

class Calibration:
    sigma: float
    mu: float
    rho: float
    def to_dict(self) -> dict[str, float]: ...

def calibrate(
    *,
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    rho: Optional[float] = None,
    mu: Optional[float] = None,
    change: float = 1.0,
) -> Calibration: ...

class Release(Live):
    def __new__(cls, plan: Plan, *, reproducible_seed: Optional[int] = None) -> Release: ...
    @staticmethod
    def open(
        path: Path, plan: Plan, *, key: Optional[Path] = None, reproducible_seed: Optional[int] = None
    ) -> Release: ...
    def save(self, path: Path, *, key: Optional[Path] = None) -> None: ...
    # A number, an array, or a dictionary of either, as the plan says.
    def step(self, input: Number) -> Any: ...
    def steps(self, inputs: npt.ArrayLike) -> Any: ...
    def stream(self, inputs: Iterable[Number]) -> Stream: ...
    @property
    def last(self) -> list[tuple[int, Any]]: ...
    def acknowledge(self) -> None: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def remaining(self) -> Optional[int]: ...

class Stream(Iterator[Any]):
    def __iter__(self) -> Stream: ...
    def __next__(self) -> Any: ...

class Noise(Live):
    def __new__(cls, plan: Plan, *, reproducible_seed: Optional[int] = None) -> Noise: ...
    @staticmethod
    def shards(plan: Plan, count: int, *, reproducible_seed: Optional[int] = None) -> list[Noise]: ...
    @staticmethod
    def create(directory: Path, plan: Plan, count: int = 1, *, reproducible_seed: Optional[int] = None) -> int: ...
    @staticmethod
    def open(directory: Path, plan: Plan, shard: int = 0) -> Noise: ...
    # Whatever shares memory through the buffer protocol or DLPack.
    def add(self, sum: Any) -> int: ...
    def prepare(self) -> None: ...
    def skip_to(self, step: int) -> None: ...
    def checkpoint(self) -> int: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def range(self) -> tuple[int, int]: ...
    @property
    def answered(self) -> int: ...

class PrivateGradients(Live):
    def __new__(
        cls,
        plan: Plan,
        *,
        state: Optional[Path] = None,
        key: Optional[Path] = None,
        reproducible_seed: Optional[int] = None,
    ) -> PrivateGradients: ...
    def add(self, gradient: npt.ArrayLike) -> None: ...
    def add_many(self, gradients: npt.ArrayLike) -> None: ...
    def finish(self) -> npt.NDArray[np.float64]: ...
    def last_finished(self) -> Optional[npt.NDArray[np.float64]]: ...
    @property
    def plan(self) -> Plan: ...

class Counts(Live):
    def count(self, name: str) -> tuple[float, float]: ...
    def top(self, most: int = 10) -> list[tuple[str, float]]: ...
    @property
    def standard_deviation(self) -> float: ...
    @property
    def strategy(self) -> str: ...

Item = Union[str, int]
People = Iterable[Union[Item, Iterable[Item]]]

class Histogram(Counts):
    def __new__(
        cls,
        universe: Iterable[Item],
        *,
        steps: int,
        relation: str,
        items: int = 1,
        distinct: bool = True,
        removals: bool = False,
        participation: Optional[Participation] = None,
        workload: str = "count",
        epsilon: Optional[float] = None,
        delta: Optional[float] = None,
        rho: Optional[float] = None,
        mu: Optional[float] = None,
        strategy: str = "auto",
        exact: bool = True,
        state: Optional[Path] = None,
        reproducible_seed: Optional[int] = None,
    ) -> Histogram: ...
    def push(self, people: Union[People, npt.NDArray[np.integer[Any]]], removed: Optional[People] = None) -> int: ...

class Discovery(Counts):
    def __new__(
        cls,
        *,
        steps: int,
        relation: str,
        threshold_delta: float,
        every: int = 1,
        items: int = 1,
        distinct: bool = True,
        participation: Optional[Participation] = None,
        workload: str = "count",
        epsilon: Optional[float] = None,
        delta: Optional[float] = None,
        rho: Optional[float] = None,
        mu: Optional[float] = None,
        strategy: str = "auto",
        state: Optional[Path] = None,
        reproducible_seed: Optional[int] = None,
    ) -> Discovery: ...
    def push(self, people: People) -> int: ...
    @property
    def threshold(self) -> float: ...

class Quantiles(Counts):
    def __new__(
        cls,
        low: float,
        high: float,
        resolution: float,
        *,
        participation: Optional[Participation] = None,
        exact: bool = True,
        state: Optional[Path] = None,
        steps: int,
        relation: str,
        workload: str = "count",
        epsilon: Optional[float] = None,
        delta: Optional[float] = None,
        rho: Optional[float] = None,
        mu: Optional[float] = None,
        strategy: str = "auto",
        reproducible_seed: Optional[int] = None,
    ) -> Quantiles: ...
    def push(self, values: npt.ArrayLike) -> int: ...
    def quantile(self, part: float, failure: float = 0.05) -> tuple[float, float, float]: ...
    def between(self, low: float, high: float) -> tuple[float, float]: ...

class Substrings(Counts):
    def __new__(
        cls,
        alphabet: Optional[str] = None,
        longest: Optional[int] = None,
        *,
        words: Optional[Sequence[str]] = None,
        steps: int,
        relation: str,
        workload: str = "count",
        epsilon: Optional[float] = None,
        delta: Optional[float] = None,
        rho: Optional[float] = None,
        mu: Optional[float] = None,
        strategy: str = "auto",
        exact: bool = True,
        reproducible_seed: Optional[int] = None,
    ) -> Substrings: ...
    def push(self, letter: Optional[str]) -> int: ...

class Episodes(Counts):
    def __new__(
        cls,
        alphabet: Optional[str] = None,
        longest: Optional[int] = None,
        *,
        episodes: Optional[Sequence[str]] = None,
        steps: int,
        relation: str,
        workload: str = "count",
        epsilon: Optional[float] = None,
        delta: Optional[float] = None,
        rho: Optional[float] = None,
        mu: Optional[float] = None,
        strategy: str = "auto",
        exact: bool = True,
        reproducible_seed: Optional[int] = None,
    ) -> Episodes: ...
    def push(self, letter: Optional[str]) -> int: ...

Edge = Union[tuple[int, int], tuple[int, int, float]]
Sides = tuple[float, list[int], list[int]]

class GraphRelease(Live):
    @property
    def names(self) -> list[str]: ...
    def answers(self) -> list[tuple[str, float, float]]: ...
    def min_cut(self) -> Sides: ...
    def max_cut(self) -> Sides: ...
    def sparsest_cut(self) -> Sides: ...
    @property
    def strategy(self) -> str: ...

class Graph(GraphRelease):
    def __new__(
        cls,
        what: str,
        vertices: int,
        *,
        cuts: Optional[Sequence[Union[Sequence[int], tuple[Sequence[int], Sequence[int]]]]] = None,
        weights: Optional[Sequence[float]] = None,
        largest_weight: float = 1.0,
        degree_bound: int = 10,
        leaves: int = 2,
        threshold: int = 10,
        exact: bool = True,
        steps: int,
        relation: str,
        workload: str = "count",
        epsilon: Optional[float] = None,
        delta: Optional[float] = None,
        rho: Optional[float] = None,
        mu: Optional[float] = None,
        strategy: str = "auto",
        reproducible_seed: Optional[int] = None,
    ) -> Graph: ...
    # A number, or an array in the order of the names.
    def push(self, edges: Iterable[Edge]) -> Any: ...

class Outcome:
    before: int
    published: int
    steps: int
    folder: pathlib.Path

def run(
    file: Path, *, frame: Optional[Any] = None, until: Optional[str] = None, reproducible_seed: Optional[int] = None
) -> Outcome: ...
