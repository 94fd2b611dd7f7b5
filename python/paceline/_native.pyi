from os import PathLike
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from paceline.errors import Error, SettingError

__all__ = [
    "__version__",
    "ArrowColumn",
    "Error",
    "LAYER_KINDS",
    "Model",
    "Network",
    "Run",
    "SettingError",
    "Source",
    "command",
    "read_arrow",
    "statistics_page",
    "statistics_table",
]

__version__: str
LAYER_KINDS: list[str]

_Path: TypeAlias = str | PathLike[str]

@final
class Source:
    @staticmethod
    def open(
        spec: str,
        *,
        cache: _Path | None = None,
        offline: bool = False,
        root: _Path | None = None,
        targets: bool = True,
        like: str | None = None,
    ) -> Source: ...
    @staticmethod
    def arrays(
        features: NDArray[Any] | list[NDArray[Any] | ArrowColumn],
        shape: list[int],
        *,
        names: list[str] | None = None,
        labels: NDArray[np.uint32] | None = None,
        classes: list[str] | None = None,
        label_type: str = "text",
        targets: NDArray[Any] | None = None,
        values: list[str] | None = None,
        steps: int = 1,
        weights: NDArray[np.float32] | None = None,
        images: bool = False,
        like: str | None = None,
        remarks: list[str] = ...,
    ) -> Source: ...
    @staticmethod
    def of_state(
        features: NDArray[np.float32],
        shape: str,
        labels: NDArray[np.uint32] | None,
        targets: NDArray[np.float32] | None,
        weights: NDArray[np.float32] | None,
        schema: str | None,
        normaliser: str,
        remarks: list[str],
        block: int | None,
        groups: list[int] | None,
        left_out: list[tuple[int, str]],
    ) -> Source: ...
    def state(
        self, /
    ) -> tuple[str, str | None, str, int | None, list[int] | None, list[tuple[int, str]]]: ...
    @property
    def schema(self, /) -> str | None: ...
    def matched(self, /, schema: str) -> Source: ...
    @staticmethod
    def partitions(notes: list[str]) -> Source: ...
    def describe(self, /, partition: int) -> str: ...
    def __len__(self, /) -> int: ...
    @property
    def shape(self, /) -> list[int]: ...
    @property
    def classes(self, /) -> list[str] | None: ...
    @property
    def values(self, /) -> list[str] | None: ...
    @property
    def remarks(self, /) -> list[str]: ...
    def inspect(self, /) -> str: ...
    def read(
        self, /, indices: list[int]
    ) -> tuple[
        NDArray[np.float32], NDArray[np.uint32] | None, NDArray[np.float32] | None, NDArray[np.float32] | None
    ]: ...
    def split(self, /, share: float, seed: int) -> tuple[Source, Source]: ...

@final
class Network:
    def __new__(cls, json: str) -> Network: ...
    def to_json(self, /) -> str: ...
    @property
    def parameter_count(self, /) -> int: ...
    @property
    def inputs(self, /) -> int: ...
    @property
    def wants_targets(self, /) -> bool: ...
    @property
    def steps(self, /) -> int | None: ...
    @property
    def outputs(self, /) -> int: ...
    def parameters(self, /) -> list[tuple[str, list[int]]]: ...

@final
class Run:
    @staticmethod
    def train(
        job: str,
        *,
        name: str,
        given: dict[str, Source] | None = None,
        output: _Path | None = None,
        found: str = "refuse",
        start: Model | None = None,
        take: str = "learned",
        force: bool = False,
        cores: int | None = None,
        cache: _Path | None = None,
        offline: bool = False,
        root: _Path | None = None,
    ) -> Run: ...
    @staticmethod
    def master(
        job: str,
        *,
        name: str,
        output: _Path,
        is_json: bool = True,
        settings: list[str] = ...,
        given: dict[str, Source] | None = None,
        listen: str = "127.0.0.1:0",
        advertise: str | None = None,
        coordinator: str | None = None,
        token: str | None = None,
        identity: _Path | None = None,
        tls: bool | None = None,
        min_workers: int = 1,
        expected_workers: int = 0,
        expected_within: float = 10.0,
        mesh_limit: int = 16,
        waiting_limit: float = 600.0,
        silence_limit: float = 5.0,
        straggler_limit: float | None = None,
        stops_on_poison: bool = False,
        status: str | None = None,
        status_token: str | None = None,
        restart: bool = False,
        statistics: bool = False,
        start: Model | None = None,
        take: str = "learned",
        cache: _Path | None = None,
        offline: bool = False,
        root: _Path | None = None,
    ) -> Run: ...
    @staticmethod
    def worker(
        *,
        join: str | None = None,
        coordinator: str | None = None,
        given: dict[str, Source] | None = None,
        held: dict[int, Source] | None = None,
        epoch: int | None = None,
        slots: int = 1,
        token: str | None = None,
        listen: str | None = None,
        advertise: str | None = None,
        patience: float = 60.0,
        cache: _Path | None = None,
        offline: bool = False,
        root: _Path | None = None,
    ) -> Run: ...
    def next(self, /, seconds: float) -> str | None: ...
    @property
    def is_over(self, /) -> bool: ...
    def stop(self, /) -> None: ...
    def result(self, /) -> tuple[Model | None, tuple[str, str] | None, bool]: ...

@final
class Model:
    @staticmethod
    def load(path: _Path) -> Model: ...
    def save(self, /, path: _Path) -> None: ...
    def to_bytes(self, /) -> bytes: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Model: ...
    def network(self, /) -> str: ...
    @property
    def classes(self, /) -> list[str] | None: ...
    @property
    def schema(self, /) -> str | None: ...
    def with_schema(self, /, schema: str) -> Model: ...
    @property
    def output_names(self, /) -> list[str]: ...
    @property
    def gives_probabilities(self, /) -> bool: ...
    @property
    def iteration(self, /) -> int: ...
    @property
    def epoch(self, /) -> int: ...
    def outputs(self, /, source: Source, *, batch: int = 256, workers: int | None = None) -> NDArray[np.float32]: ...
    def evaluate(self, /, source: Source, *, batch: int = 256, workers: int | None = None) -> tuple[str, str]: ...
    def judge_part(
        self, /, source: Source, *, batch: int = 256, workers: int | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]: ...
    def judge(
        self,
        /,
        outputs: NDArray[np.float32],
        loss: tuple[float, float],
        *,
        labels: NDArray[np.uint32] | None = None,
        targets: NDArray[np.float32] | None = None,
        weights: NDArray[np.float32] | None = None,
        auc_thresholds: int | None = None,
    ) -> tuple[str, str, str]: ...
    def parameters(self, /) -> list[tuple[str, list[int], NDArray[np.float32]]]: ...

@final
class ArrowColumn:
    @property
    def name(self, /) -> str: ...
    @property
    def width(self, /) -> int | None: ...
    @property
    def is_whole(self, /) -> bool: ...
    @property
    def is_bytes(self, /) -> bool: ...
    @property
    def is_bool(self, /) -> bool: ...
    def __len__(self, /) -> int: ...
    def numbers(self, /) -> NDArray[np.float64]: ...
    def texts(self, /) -> list[str]: ...

def read_arrow(table: Any, names: list[str] | None = None) -> list[ArrowColumn]: ...
def statistics_table(statistics: str) -> str: ...
def statistics_page(statistics: str, title: str) -> str: ...
def command(arguments: list[str]) -> int: ...
