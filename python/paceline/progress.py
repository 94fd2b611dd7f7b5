"""Shows a run to whoever watches: a line that moves in a terminal, one that is replaced in a notebook."""

from __future__ import annotations

import sys
import time
from typing import Any, Literal, TypeAlias

from paceline.events import Event

Progress: TypeAlias = bool | Literal["auto"]


class Watcher:
    """Takes events and shows the newest figures, a few times a second at most."""

    def __init__(self) -> None:
        self.epochs = self.steps = 0
        self.shown = 0.0
        self.width = 0
        self.display: Any = None
        self.is_notebook = _in_notebook()

    def __call__(self, event: Event) -> None:
        match event.kind:
            case "started":
                self.epochs, self.steps = event["epochs"], event["steps_per_epoch"]
            case "step":
                at = f"epoch {event['epoch']}/{self.epochs}, step {event['step']}/{self.steps}"
                self._line(f"{at}: loss {event['loss']:.4f}, {event['examples_per_second']:,.0f} examples/s", is_due=False)
            case "evaluation":
                accuracy = f", accuracy {event['accuracy']:.4f}" if event.get("accuracy") is not None else ""
                self._line(f"epoch {event['epoch']}/{self.epochs}: test loss {event['score']:.4f}{accuracy}", is_due=True)
            case "warning":
                self._lasting(f"warning: {event['message']}")
            case "not_saved":
                self._lasting(f"a checkpoint could not be written: {event['reason']}")
            case "finished":
                self._line(f"finished in {event['seconds']:.1f} s, {event['examples_per_second']:,.0f} examples/s", is_due=True)
                self._end()
            case "failed":
                self._end()

    def _line(self, text: str, *, is_due: bool) -> None:
        now = time.monotonic()
        if not is_due and now - self.shown < 0.2:
            return
        self.shown = now
        if self.is_notebook:
            self._notebook(text)
        else:
            sys.stderr.write(f"\r{text:<{self.width}}")
            sys.stderr.flush()
            self.width = len(text)

    def _lasting(self, text: str) -> None:
        self._end()
        sys.stderr.write(f"{text}\n")

    def _end(self) -> None:
        if self.width and not self.is_notebook:
            sys.stderr.write("\n")
        self.width = 0

    def _notebook(self, text: str) -> None:
        from IPython.display import Pretty, display

        if self.display is None:
            self.display = display(Pretty(text), display_id=True)
        else:
            self.display.update(Pretty(text))


def watcher(progress: Progress) -> Watcher | None:
    """Whoever shows a run, if somebody watches."""
    if progress == "auto":
        progress = sys.stderr is not None and (sys.stderr.isatty() or _in_notebook())
    return Watcher() if progress else None


def _in_notebook() -> bool:
    # Without importing it: whoever runs in a notebook has it already.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
