"""Training in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from html import escape
from typing import Any, ClassVar, Literal

from paceline import _native
from paceline.cores import cores
from paceline.data import Data, as_data
from paceline.errors import SettingError
from paceline.events import Callback, Event, Kept
from paceline.labels import Task, class_weights_of
from paceline.model import Model, Scores
from paceline.network import Network
from paceline.progress import Progress, watcher
from paceline.settings import Checkpoint, ClassWeights, EarlyStopping, Mode, NormaliserName, Plateau, TargetNormaliserName, to_json
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

    def _repr_html_(self) -> str:
        end = "stopped" if self.stopped else "ended"
        told = f"<p>{escape(repr(self.model)[1:-1])}; {end} after {self.model.epoch} epochs</p>"
        return told + ("" if self.scores is None else self.scores._repr_html_())


class Stopped(KeyboardInterrupt):
    """Ctrl-C was pressed: the run has ended after the step that it was in, and was saved if it has an output folder."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("the run was stopped; `resume=True` goes on with it if it has an output folder")
        self.outcome = outcome


class Trainer:
    """Trains a network: the tables `data` and `train` of a job file as arguments.

    Without `workers` and `mode` each step is spread over all cores that this process may use, and the result is that of one. `mode`
    is `sync`, `averaging`, `shared`, or one of them with its options, such as `{"averaging": {"frequency": 10}}`. With `pretrain`, the
    table of that name in a job file, layers that can learn what goes into them do so first, one after the other. `class_weights` are a
    dict by label, a list in the order of classes, or `"balanced"`. A run that needs more memory than there is is refused, unless `force`
    is set.
    """

    _starting: ClassVar[threading.Lock] = threading.Lock()

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
        mode: Mode | None = None,
        seed: int | None = None,
        shuffle: bool | None = None,
        by_length: bool | None = None,
        normaliser: NormaliserName | None = None,
        target_normaliser: TargetNormaliserName | None = None,
        class_weights: ClassWeights | None = None,
        evaluate: bool | None = None,
        evaluate_every: int | None = None,
        auc_thresholds: int | None = None,
        early_stopping: EarlyStopping | None = None,
        plateau: Plateau | None = None,
        checkpoint: Checkpoint | None = None,
        pretrain: Mapping[str, Any] | None = None,
        output: str | PathLike[str] | None = None,
        resume: bool = False,
        overwrite: bool = False,
        force: bool = False,
        start: Model | None = None,
        take: Literal["learned", "everything"] = "learned",
        callbacks: Iterable[Callback] = (),
        progress: Progress = "auto",
    ) -> None:
        self.network = network
        self.output, self.resume, self.overwrite, self.force = output, resume, overwrite, force
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
        )
        # By label they can only be put in order when the classes are known; a mistake in the type is told here.
        self.class_weights = class_weights
        if not isinstance(class_weights, Mapping):
            class_weights_of(class_weights, None)
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
        self._is_running = self._is_stopping = False

    def fit(self, train: Any, test: Any = None, *, validation: Any = None, task: Task | None = None) -> Outcome:
        """Trains on data, and judges the model on the test data after every epoch.

        Each of both is `Data`, a specification such as `"mnist:train"`, or a pair of arrays `(features, targets)`, or a triple with
        weights: `fit((X, y), (X_test, y_test))`. As in scikit-learn, `fit(X, y, validation=(X_test, y_test))` is the same. Targets are
        classes if they are texts, truth values or whole numbers, and numbers to predict if they have fractions or several columns;
        `task` says otherwise. Events go to the callbacks on this thread; what a callback raises stops the run and is raised here.
        Ctrl-C stops as it does on the command line, and raises `Stopped` when the run has ended.
        """
        train, test = _sides(train, test, validation, self.network.wants_targets)
        with Trainer._starting:
            if self._is_running:
                raise SettingError("this trainer is running already: wait for its end, call `stop()`, or make another `Trainer`")
            self._is_running, self._is_stopping = True, False
        try:
            return self._fit(train, test, task)
        finally:
            self._run, self._is_running, self._is_stopping = None, False, False

    def _fit(self, train: Any, test: Any, task: Task | None) -> Outcome:
        data, judged = self._prepared(train, test, task)
        given = {"train": data._source}
        tree = self._tree(data)
        tree["data"]["train"] = "given:train"
        if judged is not None:
            given["test"] = judged._source
            tree["data"]["test"] = "given:test"
        found = "resume" if self.resume else "overwrite" if self.overwrite else "refuse"
        told = Kept()
        listeners: list[Callback] = [told.keep, *self.callbacks]
        if (watching := watcher(self.progress)) is not None:
            listeners.append(watching)
        run = _native.Run.train(
            to_json(tree),
            name="python",
            given=given,
            output=self.output,
            found=found,
            start=self._start(),
            take=self.take,
            force=self.force,
            cores=cores(),
        )
        self._run = run
        if self._is_stopping:
            run.stop()
        pressed = follow(run, listeners)
        model, scores, stopped = run.result()
        assert model is not None, "a run that did not fail has a model"
        outcome = Outcome(Model(model), None if scores is None else Scores.parse(scores), stopped, told)
        if pressed:
            raise Stopped(outcome)
        return outcome

    def _prepared(self, train: Any, test: Any, task: Task | None = None) -> tuple[Data, Data | None]:
        """Data to learn from and to judge on, with the same columns, offsets and classes."""
        network = self.network
        begins = self.start.schema if self.start is not None and self.start.schema.text is not None else None
        if begins is not None and self.take == "learned":
            # The columns and offsets of the model hold for this data; its targets may be others.
            begins = begins.without_target() if begins.tree.get("columns") else None
        data = as_data(train, like=begins, task=task, input=network.input)
        if network.wants_targets and data._source.classes is None and data._source.values is None:
            raise SettingError("the data has nothing to learn from: pass `(X, y)`, features and targets")
        shifts = data.schema.target_shifts
        if shifts is not None and len(shifts) != network.outputs:
            # The outputs are not what is predicted, but say how it is spread: no offset can be added to them.
            data = data.matched(data.schema.without_target_shifts())
        return data, None if test is None else as_data(test, like=data.schema, input=network.input)

    def _tree(self, data: Data | None) -> dict[str, Any]:
        """The job without its data; classes have weights in their order."""
        tree: dict[str, Any] = {"data": dict(self._data), "train": dict(self._train)}
        tree["network"] = json.loads(self.network.to_json())
        if self.pretrain is not None:
            tree["pretrain"] = self.pretrain
        if self.class_weights is not None:
            if data is None and isinstance(self.class_weights, Mapping):
                raise SettingError("`class_weights` by label need data that is opened here: `Data.open(…)`, or a list in the order of classes")
            tree["data"]["class_weights"] = class_weights_of(self.class_weights, None if data is None else data.classes)
        return tree

    def _start(self) -> _native.Model | None:
        return None if self.start is None else self.start._native

    def stop(self) -> None:
        """Asks the run that is going on, or that reads its data, to end after a step; for other threads, and for callbacks."""
        self._is_stopping = self._is_running
        if (run := self._run) is not None:
            run.stop()


def _sides(train: Any, test: Any, validation: Any, wants_targets: bool) -> tuple[Any, Any]:
    """What is learned from and what is judged on, of `fit((X, y), test)` and of `fit(X, y, validation=test)`.

    A network that gives back what goes in has no targets: of `fit(X, X_test)` the second argument is test data.
    """
    if not wants_targets and not isinstance(train, (tuple, Data, str)):
        if test is not None and validation is not None:
            raise SettingError("this network has no targets: pass `fit(X, X_test)`, or `fit(X, validation=X_test)`")
        return train, test if test is not None else validation
    if isinstance(train, (tuple, Data, str)):
        if test is not None and validation is not None:
            raise SettingError("expected test data once, found it as second argument and as `validation`")
        return train, test if test is not None else validation
    if test is None:
        return train, validation
    if isinstance(test, (tuple, Data, str)):
        if isinstance(test, tuple) and len(test) > 1 and len(test) == len(train):
            return (train, list(test)), validation
        return train, test
    return (train, test), validation


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
