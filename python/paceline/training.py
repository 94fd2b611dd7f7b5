"""Training in this process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from paceline import _native
from paceline.cores import cores
from paceline.data import as_data
from paceline.events import Callback, Event, Kept
from paceline.model import Model, Scores
from paceline.network import Network
from paceline.progress import Progress, watcher
from paceline.watching import follow


@dataclass
class Outcome:
    """What a run came to."""

    model: Model
    scores: Scores | None
    """How good the model is on the test data; none without any."""
    stopped: bool
    """Whether it was stopped before its end."""
    events: list[Event] = field(repr=False)
    """What the run told; of very many steps the last ones."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C was pressed: the run has ended after the step that it was in, and was saved if it has an output folder."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("the run was stopped; `resume=True` goes on with it if it has an output folder")
        self.outcome = outcome


class Trainer:
    """Trains a network: the tables `data` and `train` of a job file as arguments.

    Without `workers` and `mode` each step is spread over all cores that this process may use, and the result is that of one. `mode`
    is `sync`, `averaging`, `shared`, or one of them with its options, such as `{"averaging": {"frequency": 10}}`. With `pretrain`, the
    table of that name in a job file, layers that can learn what goes into them do so first, one after the other.
    """

    def __init__(
        self,
        network: Network,
        *,
        epochs: int = 1,
        steps: int | None = None,
        batch: int | None = None,
        global_batch: int | None = None,
        micro_batch: int | None = None,
        workers: int | None = None,
        mode: str | Mapping[str, Any] | None = None,
        seed: int | None = None,
        shuffle: bool | None = None,
        by_length: bool | None = None,
        normaliser: str | None = None,
        target_normaliser: str | None = None,
        class_weights: Sequence[float] | Literal["balanced"] | None = None,
        evaluate: bool | None = None,
        evaluate_every: int | None = None,
        auc_thresholds: int | None = None,
        early_stopping: Mapping[str, Any] | None = None,
        plateau: Mapping[str, Any] | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        pretrain: Mapping[str, Any] | None = None,
        output: str | PathLike[str] | None = None,
        resume: bool = False,
        overwrite: bool = False,
        start: Model | None = None,
        take: Literal["learned", "everything"] = "learned",
        callbacks: Iterable[Callback] = (),
        progress: Progress = "auto",
    ) -> None:
        self.network = network
        self.output, self.resume, self.overwrite = output, resume, overwrite
        self.start, self.take = start, take
        self.callbacks, self.progress = list(callbacks), progress
        self.pretrain = None if pretrain is None else dict(pretrain)
        self._data = _given(
            batch=batch,
            global_batch=global_batch,
            micro_batch=micro_batch,
            normaliser=normaliser,
            target_normaliser=target_normaliser,
            shuffle=shuffle,
            by_length=by_length,
            seed=seed,
            class_weights=class_weights if class_weights is None or isinstance(class_weights, str) else [float(each) for each in class_weights],
        )
        self._train = _given(
            epochs=epochs,
            steps=steps,
            workers=workers,
            mode=mode,
            evaluate=evaluate,
            evaluate_every=evaluate_every,
            auc_thresholds=auc_thresholds,
            early_stopping=early_stopping,
            plateau=plateau,
            checkpoint=checkpoint,
        )
        self._run: _native.Run | None = None

    def fit(self, train: Any, test: Any = None) -> Outcome:
        """Trains on data, and judges the model on the test data after every epoch.

        Each of both is `Data`, a specification such as `"mnist:train"`, or a pair of arrays `(features, targets)`, or a triple with
        weights. Events go to the callbacks on this thread; what a callback raises stops the run and is raised here. Ctrl-C stops
        as it does on the command line, and raises `Stopped` when the run has ended.
        """
        data = as_data(train)
        given = {"train": data._source}
        tree: dict[str, Any] = {"data": {"train": "given:train", **self._data}, "train": dict(self._train)}
        tree["network"] = json.loads(self.network.to_json())
        if self.pretrain is not None:
            tree["pretrain"] = self.pretrain
        if test is not None:
            given["test"] = as_data(test, like=data)._source
            tree["data"]["test"] = "given:test"
        found = "resume" if self.resume else "overwrite" if self.overwrite else "refuse"
        told = Kept()
        listeners: list[Callback] = [told.keep, *self.callbacks]
        if (watching := watcher(self.progress)) is not None:
            listeners.append(watching)
        run = _native.Run.train(
            json.dumps(tree),
            name="python",
            given=given,
            output=self.output,
            found=found,
            start=self._start(),
            take=self.take,
            cores=cores(),
        )
        self._run = run
        try:
            pressed = follow(run, listeners)
            model, scores, stopped = run.result()
        finally:
            self._run = None
        assert model is not None, "a run that did not fail has a model"
        outcome = Outcome(Model(model, data._labels), None if scores is None else Scores.parse(scores), stopped, told)
        if pressed:
            raise Stopped(outcome)
        return outcome

    def _start(self) -> _native.Model | None:
        return None if self.start is None else self.start._native

    def stop(self) -> None:
        """Asks the run that is going on to end after the step that it is in; for other threads, and for callbacks."""
        if self._run is not None:
            self._run.stop()


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
