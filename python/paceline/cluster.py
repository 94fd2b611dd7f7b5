"""Many machines: a master and workers as objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from paceline import _native
from paceline.data import Data, as_data
from paceline.errors import Error
from paceline.events import Callback, Event, Kept
from paceline.model import Model, Scores
from paceline.settings import to_json
from paceline.training import Trainer
from paceline.watching import events, follow


class _Process:
    """Something that goes on beside the interpreter."""

    def __init__(self, run: _native.Run) -> None:
        self._run = run
        self.events = Kept()

    def follow(self) -> Iterator[Event]:
        """Its events, to its end."""
        for event in events(self._run):
            self.events.keep(event)
            yield event

    def wait_for(self, kind: str) -> Event:
        """Its next event of this kind."""
        for event in self.follow():
            if event.kind == kind:
                return event
        self._run.result()
        raise Error(f"it has ended without `{kind}`")

    def stop(self) -> None:
        """Asks it to end, with a checkpoint if it leads."""
        self._run.stop()

    def _end(self, callbacks: Iterable[Callback]) -> tuple[_native.Model | None, tuple[str, str] | None, bool]:
        if follow(self._run, [self.events.keep, *callbacks]):
            raise KeyboardInterrupt
        return self._run.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for _ in self.follow():
            pass


class Master(_Process):
    """Leads a run that workers on this and other machines train: `paceline master` as an object.

    `train` and `test` are specifications that every worker can open itself, or data by name that each worker is given too. The first step
    waits for `expected_workers`, but no longer than `expected_within` seconds; later the run waits only while there are fewer than
    `min_workers`. With `statistics` its last event but one says where the time of the workers went: see `TrainingStatistics`.
    """

    def __init__(
        self,
        trainer: Trainer,
        train: Any,
        test: Any = None,
        *,
        output: str | PathLike[str],
        listen: str = "127.0.0.1:0",
        advertise: str | None = None,
        coordinator: str | None = None,
        token: str | None = None,
        identity: str | PathLike[str] | None = None,
        tls: bool | None = None,
        min_workers: int = 1,
        expected_workers: int = 0,
        expected_within: float = 10.0,
        waiting_limit: float = 600.0,
        silence_limit: float = 5.0,
        straggler_limit: float | None = None,
        restart: bool = False,
        statistics: bool = False,
        status: str | None = None,
        status_token: str | None = None,
    ) -> None:
        given: dict[str, _native.Source] = {}
        data = None if isinstance(train, str) else trainer._prepared(train, None)[0]
        tree = trainer._tree(data)
        if data is None:
            tree["data"]["train"] = train
        else:
            given["train"], tree["data"]["train"] = data._source, "given:train"
        if isinstance(test, str):
            tree["data"]["test"] = test
        elif test is not None:
            like = None if data is None else data.schema
            given["test"], tree["data"]["test"] = as_data(test, like=like, input=trainer.network.input)._source, "given:test"
        self.given = given
        self.train = data
        """The data that is learned from, as the network takes it; none where it is a specification that every worker opens."""
        run = _native.Run.master(
            to_json(tree),
            name="python",
            output=output,
            given=given,
            listen=listen,
            advertise=advertise,
            coordinator=coordinator,
            token=token,
            identity=identity,
            tls=tls,
            min_workers=min_workers,
            expected_workers=expected_workers,
            expected_within=expected_within,
            waiting_limit=waiting_limit,
            silence_limit=silence_limit,
            straggler_limit=straggler_limit,
            restart=restart,
            statistics=statistics,
            start=trainer._start(),
            take=trainer.take,
            status=status,
            status_token=status_token,
        )
        super().__init__(run)
        self._address: Event | None = None

    @classmethod
    def of_job(cls, path: str | PathLike[str], *, settings: Iterable[str] = (), **options: Any) -> Self:
        """Leads the job of a file; its data is what workers can open by the same names. `options` are those of `Run.master`."""
        file = Path(path)
        master = cls.__new__(cls)
        is_json = file.suffix == ".json"
        text = file.read_text(encoding="utf-8")
        run = _native.Run.master(text, name=file.stem, is_json=is_json, settings=list(settings), **options)
        _Process.__init__(master, run)
        master.given, master.train, master._address = {}, None, None
        return master

    @property
    def join(self) -> str:
        """What workers are given to join: an address on this machine, or the join string."""
        if self._address is None:
            self._address = self.wait_for("listening")
        return str(self._address.get("join") or self._address["address"])

    def wait(self, *callbacks: Callback) -> tuple[Model | None, Scores | None]:
        """Waits for the end; gives the model and its scores. Nothing if it was stopped."""
        model, scores, _ = self._end(callbacks)
        return (None if model is None else Model(model), None if scores is None else Scores.parse(scores))


class Worker(_Process):
    """Lends cores of this process to a master: `paceline worker` as an object.

    Where the data of a run lives with its workers, `partitions` are those that this one has, by number. With an `epoch`, from 0, they are
    here for that one only, and the worker goes when nothing of them is left in it. `like` is data, or the model that the master begins with,
    whose columns, offsets and classes hold for `train`: of arrays in 64 bits they must be those of the master, as `master.train` has them.
    """

    def __init__(
        self,
        join: str | None = None,
        *,
        coordinator: str | None = None,
        train: Any = None,
        test: Any = None,
        like: Data | Model | None = None,
        partitions: Mapping[int, Any] | None = None,
        epoch: int | None = None,
        slots: int = 1,
        token: str | None = None,
        listen: str | None = None,
        advertise: str | None = None,
        patience: float = 60.0,
        root: str | PathLike[str] | None = None,
    ) -> None:
        given: dict[str, _native.Source] = {}
        data = None if train is None else as_data(train, like=None if like is None else like.schema)
        if data is not None:
            given["train"] = data._source
        if test is not None:
            given["test"] = as_data(test, like=None if data is None else data.schema)._source
        run = _native.Run.worker(
            join=join,
            coordinator=coordinator,
            given=given,
            held={number: as_data(what)._source for number, what in (partitions or {}).items()},
            epoch=epoch,
            slots=slots,
            token=token,
            listen=listen,
            advertise=advertise,
            patience=patience,
            root=root,
        )
        super().__init__(run)

    def wait(self, *callbacks: Callback) -> None:
        """Waits until the run is over."""
        self._end(callbacks)
