"""The judge of a run: what of the evidence (`events`) was lost, came twice, leaked, was oversold or has no excuse.

It shares no code with what it judges, and knows nothing of the run but the evidence.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from tools.chaos.events import Evidence, Happened, Outcome, Refused, Session, Spoken, Worked

T = TypeVar("T", Spoken, Outcome)

# A word that is cut in two is heard on both sides; slices at the edge of a cut that are too few to be heard are not.
UNHEARD_SLICES = 8
# So long after a fault its consequences are still its own: existing nodes beat every 15 s.
SETTLE_S = 20.0
# A socket may notice late that its other side is gone: pings, and the kernel's patience.
BREAK_S = 30.0
# A socket that breaks takes with it, of clients that cannot resume, what was said up to so long before.
CUT_WITHIN_S = 30.0
# Two faults or a burst after a break may join sentences: a chunk shortly after a final belongs to what is being ended.
JOIN_WITHIN_S = 60.0

# A missing result is allowed while the thing that decides is away, refuses or has just lost its memory. Nothing else is
# a reason: whoever kills instances or nodes, floods us or cuts connections costs nobody a sentence.
EXCUSED = {
    "redis.kill": frozenset({"job_failed"}),
    "redis.empty": frozenset({"job_failed"}),
    "redis.freeze": frozenset({"job_failed"}),
    "redis.flush": frozenset({"job_failed"}),
    "redis.drop": frozenset({"job_failed"}),
    "redis.oom": frozenset({"job_failed"}),
    "redis.noreplicas": frozenset({"job_failed"}),
    "redis.clock": frozenset({"job_failed"}),
}
# Our own mistake, whatever happens.
NO_EXCUSE = frozenset({"INTERNAL_ERROR"})
# What may break the sockets of honest clients.
BREAKING = frozenset({"instance.kill", "instance.stop", "instance.freeze", "client.cut"})
# What makes frames arrive in a burst.
BURSTS = frozenset({"instance.freeze", "redis.freeze"})
# Clients that open a new session when their socket breaks, and cannot ask for what they missed.
FORGETFUL = frozenset({"browser", "phone", "gateway"})


class Problem(NamedTuple):
    kind: str
    at_s: float
    words: str


class Verdict(NamedTuple):
    figures: dict[str, int]
    problems: list[Problem]

    @property
    def is_good(self) -> bool:
        return not self.problems

    def count(self, kind: str) -> int:
        return sum(problem.kind == kind for problem in self.problems)


# In the order in which they are told.
PROBLEMS = {
    "lost": "utterances without an outcome",
    "twice": "outcomes that came twice, or speech in two of them",
    "wrong": "words that were not said in that session",
    "phantom": "outcomes for nothing",
    "unexplained": "missing results without a fault that excuses them",
    "by hand": "sessions that had to be opened again by hand",
    "broken": "connections that broke without a fault that breaks them",
    "oversold": "attempts beyond a node's slots",
    "leaked": "left behind when all was over",
    "memory": "processes that grew too large",
    "crashed": "processes that ended by themselves",
    "test": "failures of the test itself",
}


# A frozen process that goes on does what it had to do in this time.
AT_ONCE_S = 1.0


def judged(seen: Evidence, max_mb: float = float("inf")) -> Verdict:
    problems: list[Problem] = []
    figures: Counter[str] = Counter(
        {"sentences": len(seen.spoken), "sessions": len(seen.sessions), "attempts": len(seen.worked)}
    )
    figures["resumed"] = sum(len(session.resumed_s) for session in seen.sessions)
    figures["broken off"] = sum(session.ended_by == "broken" for session in seen.sessions)
    figures["refused after a freeze"] = sum(_has_just_thawed(one, seen.faults) for one in seen.refused)
    faults = _Faults(seen.faults)
    spoken, outcomes = _by_session(seen.spoken), _by_session(seen.outcomes)
    for session in seen.sessions:
        place = (session.speaker, session.session)
        one = _OneSession(session, spoken.pop(place, []), outcomes.pop(place, []), faults)
        problems += one.judge()
        figures.update(one.figures)
    for speaker, session_id in {*spoken, *outcomes}:
        problems.append(Problem("wrong", 0.0, f"{speaker}: something in session {session_id}, which it never opened"))
    problems += [Problem("by hand", one.at_s, f"{one.speaker}: {one.why}") for one in seen.incidents]
    problems += [Problem("crashed", one.at_s, f"{one.speaker}: {one.why}") for one in seen.crashes]
    problems += [Problem("test", 0.0, words) for words in seen.failures]
    problems += _oversold(seen)
    problems += [Problem("leaked", 0.0, words) for words in seen.leftovers]
    problems += _too_large(seen, max_mb)
    return Verdict(dict(figures), sorted(problems, key=lambda problem: problem.at_s))


def excused_share(faults: Sequence[Happened], from_s: float, until_s: float) -> float:
    """The part of a time in which a missing result would be excused: so much weaker is the word "unexplained"."""
    excused_s, reached_s = 0.0, from_s
    for fault in sorted(faults, key=lambda fault: fault.began_s):
        if fault.what in EXCUSED:
            end_s = min(fault.ended_s + SETTLE_S, until_s)
            excused_s += max(0.0, end_s - max(fault.began_s, reached_s))
            reached_s = max(reached_s, end_s)
    return excused_s / (until_s - from_s)


class _Faults:
    def __init__(self, faults: Sequence[Happened]) -> None:
        self._faults = faults

    def excuse(self, reason: str, from_s: float, until_s: float) -> bool:
        return any(
            reason in EXCUSED.get(fault.what, ()) and fault.began_s <= until_s and from_s <= fault.ended_s + SETTLE_S
            for fault in self._faults
        )

    def break_sockets(self, at_s: float) -> bool:
        return any(
            fault.what in BREAKING and fault.began_s - 1 <= at_s <= fault.ended_s + BREAK_S for fault in self._faults
        )

    def any_between(self, from_s: float, until_s: float) -> bool:
        return any(fault.began_s <= until_s and from_s <= fault.ended_s + SETTLE_S for fault in self._faults)

    @property
    def bursts_s(self) -> list[float]:
        return [fault.ended_s for fault in self._faults if fault.what in BURSTS]


class _OneSession:
    """Lays outcomes and words of a session side by side; both are numbered in the order in which they were said."""

    def __init__(
        self, session: Session, spoken: Sequence[Spoken], outcomes: Sequence[Outcome], faults: _Faults
    ) -> None:
        self._session = session
        self._sentences = sorted(spoken, key=lambda sentence: sentence.began_s)
        self._words = [(word, number) for number, one in enumerate(self._sentences) for word in one.words]
        self._position = {word: position for position, (word, _) in enumerate(self._words)}
        self._heard = outcomes
        self._faults = faults
        self.figures: Counter[str] = Counter()
        self._problems: list[Problem] = []

    def judge(self) -> list[Problem]:
        self._judge_socket()
        outcomes = self._without_repeats()
        heard_in = self._coverage(outcomes)
        missing = sorted(index for index, outcome in outcomes.items() if outcome.reason)
        for begin, end in _gaps([bool(heard_in[position]) for position in range(len(self._words))]):
            before = max(heard_in[begin - 1]) if begin else -1
            after = min(heard_in[end]) if end < len(self._words) else None
            fitting = [index for index in missing if before < index and (after is None or index < after)]
            missing = [index for index in missing if index not in fitting]
            self._judge_gap(begin, end, [outcomes[index] for index in fitting])
        for index in missing:
            self._add("phantom", outcomes[index].at_s, f"index {index}: {outcomes[index].reason}, and all was heard")
        self._judge_holes(outcomes)
        self.figures["translated"] += sum(not outcome.reason for outcome in outcomes.values())
        return self._problems

    def _judge_socket(self) -> None:
        ends_s = list(self._session.resumed_s)
        if self._session.ended_by == "broken" and self._session.ended_s is not None:
            ends_s.append(self._session.ended_s)
        for at_s in ends_s:
            if not self._faults.break_sockets(at_s):
                self._add("broken", at_s, "its connection broke")

    def _without_repeats(self) -> dict[int, Outcome]:
        first: dict[int, Outcome] = {}
        seen: set[tuple[int, int]] = set()
        for outcome in self._heard:
            known = first.setdefault(outcome.index, outcome)
            is_same = (known.reason, known.words) == (outcome.reason, outcome.words)
            if (outcome.connection, outcome.index) in seen or not is_same:
                what = outcome.reason or "a translation"
                self._add("twice", outcome.at_s, f"index {outcome.index}: {what} after {known.reason or 'one'}")
            seen.add((outcome.connection, outcome.index))
        return first

    def _coverage(self, outcomes: dict[int, Outcome]) -> dict[int, list[int]]:
        """Position of a word → the outcomes that have all of it, together."""
        slices: dict[int, dict[int, int]] = defaultdict(dict)
        totals: dict[int, int] = {}
        for index, outcome in outcomes.items():
            for span in outcome.words:
                position = self._position.get(span.word)
                if position is None:
                    self._add("wrong", outcome.at_s, f"index {index}: {span.word} was not said in this session")
                    continue
                totals[position] = span.total
                for slice_ in range(span.first, span.last + 1):
                    other = slices[position].setdefault(slice_, index)
                    if other != index:
                        self._add("twice", outcome.at_s, f"{span.word} is in index {other} and in index {index}")
                        break
        heard: dict[int, list[int]] = {position: [] for position in range(len(self._words))}
        for position, found in slices.items():
            if len(found) >= totals[position] - UNHEARD_SLICES:
                heard[position] = sorted(set(found.values()))
        return heard

    def _judge_gap(self, begin: int, end: int, fitting: list[Outcome]) -> None:
        """Words nobody heard, and the missing results that may stand for them."""
        numbers = sorted({number for _, number in self._words[begin:end]})
        sentences = [self._sentences[number] for number in numbers]
        needed = 1 + sum(not self._joined(sentence) for sentence in sentences[1:])
        for outcome in fitting[: end - begin]:
            self.figures[f"missing: {outcome.reason} {outcome.code}".rstrip()] += 1
            is_excused = self._faults.excuse(outcome.reason, sentences[0].began_s, outcome.at_s)
            if not is_excused or outcome.code in NO_EXCUSE:
                said = f"index {outcome.index}: {outcome.reason} {outcome.code}"
                self._add("unexplained", outcome.at_s, f"{said}, for {' '.join(sentences[0].words)}")
        for outcome in fitting[end - begin :]:
            self._add("phantom", outcome.at_s, f"index {outcome.index}: {outcome.reason}, more than was said")
        for sentence in sentences[len(sentences) - max(0, needed - len(fitting)) :]:
            if self._is_cut_off(sentence):
                self.figures["cut off"] += 1
            else:
                unheard = [word for word, _ in self._words[begin:end] if word in sentence.words]
                self._add("lost", sentence.ended_s, f"no outcome for {' '.join(unheard)}, of {len(sentence.words)}")

    def _judge_holes(self, outcomes: dict[int, Outcome]) -> None:
        """Numbers of a session that goes on over reconnects are without holes."""
        if self._session.kind in FORGETFUL or any(problem.kind == "lost" for problem in self._problems):
            return
        for index in sorted(set(range(max(outcomes, default=-1))) - set(outcomes)):
            self._add("lost", self._session.opened_s, f"index {index} has no outcome, though all that was said has one")

    def _joined(self, other: Spoken) -> bool:
        bursts_s = [*self._session.resumed_s, *self._faults.bursts_s]
        return any(other.began_s - 1 <= at_s <= other.ended_s + JOIN_WITHIN_S for at_s in bursts_s)

    def _is_cut_off(self, sentence: Spoken) -> bool:
        session = self._session
        if session.kind not in FORGETFUL or session.ended_by != "broken" or session.ended_s is None:
            return False
        waited_s = session.ended_s - sentence.ended_s
        return waited_s < CUT_WITHIN_S or self._faults.any_between(sentence.began_s, session.ended_s)

    def _add(self, kind: str, at_s: float, words: str) -> None:
        about = self._session
        self._problems.append(Problem(kind, at_s, f"{about.speaker} ({about.kind} {about.session}): {words}"))


def _gaps(is_heard: Sequence[bool]) -> Iterable[tuple[int, int]]:
    """Runs of words that were not heard: first, and the one after the last."""
    begin = None
    for position, heard in enumerate([*is_heard, True]):
        if not heard and begin is None:
            begin = position
        elif heard and begin is not None:
            yield begin, position
            begin = None


def _has_just_thawed(one: Refused, faults: Sequence[Happened]) -> bool:
    """Whether the node was frozen until now. It then reads orders that were given up long ago together with new ones,
    and refuses what is too much: neither side alone can tell, so the node keeps the last word on its slots."""
    process = one.node.removeprefix("n").partition("-")[0]
    return any(
        fault.what == "node.freeze"
        and fault.target == f"#{process}"
        and fault.ended_s - AT_ONCE_S <= one.at_s <= fault.ended_s + AT_ONCE_S
        for fault in faults
    )


def _oversold(seen: Evidence) -> list[Problem]:
    problems = [
        Problem("oversold", one.at_s, f"{one.node} refused: {one.why}")
        for one in seen.refused
        if not _has_just_thawed(one, seen.faults)
    ]
    problems += [
        Problem("oversold", one.at_s, f"{one.node} has leases for {one.jobs} jobs on {one.slots} slots in Redis")
        for one in seen.ledger
        if one.jobs > one.slots
    ]
    by_socket: dict[tuple[str, str, int], list[Worked]] = defaultdict(list)
    for worked in seen.worked:
        by_socket[worked.node, worked.process, worked.connection].append(worked)
    for (node, _, _), attempts in by_socket.items():
        # What ends in the same moment makes room for what begins.
        steps = [(one.began_s, 1) for one in attempts]
        steps += [(one.ended_s, -1) for one in attempts if one.ended_s is not None]
        running, slots = 0, attempts[0].slots
        for at_s, step in sorted(steps):
            running += step
            if step > 0 and running > slots:
                problems.append(Problem("oversold", at_s, f"{node} runs {running} jobs on {slots} slots"))
    return problems


def _too_large(seen: Evidence, max_mb: float) -> list[Problem]:
    largest: dict[str, tuple[float, float]] = {}
    for one in seen.memory:
        largest[one.process] = max(largest.get(one.process, (0.0, 0.0)), (one.mb, one.at_s))
    return [
        Problem("memory", at_s, f"{process} took {mb:.0f} MB; {max_mb:.0f} are allowed")
        for process, (mb, at_s) in largest.items()
        if mb > max_mb
    ]


def _by_session(items: Sequence[T]) -> dict[tuple[str, str], list[T]]:
    found: dict[tuple[str, str], list[T]] = defaultdict(list)
    for item in items:
        found[item.speaker, item.session].append(item)
    return found
