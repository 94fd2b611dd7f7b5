"""Waits for a run on its own thread: events go to callbacks, Ctrl-C asks it to stop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paceline import _native
from paceline.events import Callback, Event

# So long the interpreter is not looked after: Ctrl-C is heard in between.
SLICE_SECONDS = 0.1


def events(run: _native.Run) -> Iterator[Event]:
    """The events of a run, to its end."""
    while not run.is_over:
        line = run.next(SLICE_SECONDS)
        if line is not None:
            yield Event.parse(line)


def follow(run: _native.Run, callbacks: Iterable[Callback]) -> bool:
    """Hands events to callbacks until the run has ended; says whether Ctrl-C was pressed.

    The first Ctrl-C asks the run to stop and waits for that; so does an exception of a callback, which is raised then. The second
    Ctrl-C is raised at once.
    """
    raised: Exception | None = None
    pressed = False
    while not run.is_over:
        try:
            for event in events(run):
                if raised is None and not pressed:
                    raised = _hand(event, callbacks)
                    if raised is not None:
                        run.stop()
        except KeyboardInterrupt:
            if pressed:
                raise
            pressed = True
            run.stop()
    if raised is not None:
        raise raised
    return pressed


def _hand(event: Event, callbacks: Iterable[Callback]) -> Exception | None:
    try:
        for callback in callbacks:
            callback(event)
    except Exception as error:
        return error
    return None
