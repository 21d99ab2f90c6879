"""What is kept of those who speak in rooms."""

from lingua_scheduler.domain.guards.rates import Budget
from lingua_scheduler.services.attempts.work import Binding, Work


class TurnNodes:
    """To which nodes a turn of a speaker sticks: one for each language."""

    __slots__ = ("_bindings", "_turn")

    def __init__(self) -> None:
        self._bindings: dict[str, Binding] = {}
        self._turn = ""

    def binding(self, work: Work, language: str) -> Binding | None:
        """None for whole utterances, which have no turns."""
        if work.binding is None:
            return None
        if work.turn_id != self._turn:
            self._turn, self._bindings = work.turn_id, {}
        return self._bindings.setdefault(language, Binding())


class SpeakerHere:
    """A member as the others see it speak. `captioned`: the job whose captions are shown, of its latest utterances."""

    MAX_CAPTIONED = 8
    # Captions and beginnings per second.
    SHOWN_PER_S = 10

    __slots__ = ("budget", "captioned", "is_speaking")

    def __init__(self) -> None:
        self.is_speaking = False
        self.budget = Budget(self.SHOWN_PER_S)
        self.captioned: dict[int, str] = {}
