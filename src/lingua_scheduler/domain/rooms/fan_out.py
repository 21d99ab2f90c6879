"""Into which languages an utterance in a room is translated, and for whom speech is made of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from lingua_scheduler.domain.rooms.feeds import RoomUtterance
from lingua_scheduler.domain.rooms.rooms import RoomState
from lingua_scheduler.domain.sessions.terms import PipelineTerms, Terms
from lingua_sdk.domain.languages import AUTO, is_code

# Languages that are looked up for each that may be translated into: guests may name thousands.
_LOOKED_UP = 4


class FanOut(NamedTuple):
    """The languages of those who listen. `targets`: language → whether any of its listeners wants speech."""

    targets: Mapping[str, bool]
    # Listeners read this one as it was recognised: it is the speaker's own, or theirs is not translated into.
    source: str
    is_source_heard: bool
    # Asked for → target, where nodes serve it by another tag.
    read_as: Mapping[str, str] = {}

    @property
    def languages(self) -> tuple[str, ...]:
        """All that get an outcome."""
        return (*self.targets, *((self.source,) if self.is_source_heard else ()))

    @property
    def is_empty(self) -> bool:
        """Whether no one listens."""
        return not self.languages


def fan_out(
    room: RoomState, speaker: str, source: str, max_languages: int, served_as: Callable[[str], str | None]
) -> FanOut:
    """`source` is the language that the speaker speaks, `auto` if that is not known.

    Languages of members come first, then those with the most guests, if nodes serve them: guests are strangers, and
    may name any language. Who reads one that is left out reads what was said. Variants that nodes serve by the same
    tag are one language: `served_as` tells that tag, None if no node serves it.
    """
    counts: Counter[str] = Counter()
    speech: set[str] = set()
    for language, count, wants_speech in _listeners(room, speaker):
        counts[language] += count
        if wants_speech:
            speech.add(language)
    everyone = len(counts)
    for language in [language for language in counts if is_same(language, source)]:
        del counts[language]
    of_members = {member.about.language for member in room.members if member.session_id != speaker}
    ordered = sorted(counts, key=lambda language: (language not in of_members, -counts[language]))
    targets: dict[str, bool] = {}
    chosen: dict[str, str] = {}
    for language in ordered[: _LOOKED_UP * max_languages]:
        # A member gets the error of a language that no node serves.
        target = served_as(language) or (language if language in of_members else None)
        if target is not None and (target in targets or len(targets) < max_languages):
            chosen[language] = target
            targets[target] = targets.get(target, False) or language in speech
    read_as = {language: target for language, target in chosen.items() if language != target}
    return FanOut(targets, source, len(chosen) < everyone, read_as)


def _listeners(room: RoomState, speaker: str) -> Iterable[tuple[str, int, bool]]:
    for member in room.members:
        if member.session_id != speaker and is_code(member.about.language):
            yield member.about.language, 1, member.about.speech
    for at in room.guests:
        for language, guests in at.languages.items():
            if is_code(language):
                yield language, guests.total, guests.with_speech > 0


def instances_of(room: RoomState, utterance: RoomUtterance, language: str) -> set[str]:
    """Those with listeners who get an outcome in this language."""
    of_members = {one.instance for one in room.members if is_for(one.about.language, utterance, language)}
    return of_members | {
        at.instance for at in room.guests if any(is_for(one, utterance, language) for one in at.languages)
    }


def is_same(language: str, source: str) -> bool:
    """Whether one who reads the first understands the second: `zh-CN` is `zh`."""
    return source != AUTO and language.partition("-")[0] == source.partition("-")[0]


def is_for(language: str, spoken: RoomUtterance, outcome_in: str) -> bool:
    """Whether one who reads `language` gets an outcome in another: its own; the speaker's, if that is the same or
    there is none in its own."""
    own = spoken.read_as.get(language, language)
    if own == outcome_in:
        return True
    return outcome_in == spoken.source and (own not in spoken.languages or is_same(own, spoken.source))


def terms_in_room(terms: Terms) -> Terms:
    """The speaker's terms, for any language to translate into."""
    sources = tuple(terms.sources) if terms.src_lang == AUTO else None
    return terms._replace(mode=None, lang_a=None, lang_b=None, auto_langs=sources)


def terms_of_recognition(terms: Terms) -> Terms:
    """The speaker's terms, for what was said alone."""
    pipeline: PipelineTerms = terms.pipeline._replace(use_nmt=False, use_tts=False)
    return terms._replace(tgt_lang=terms.src_lang, mode=None, lang_a=None, lang_b=None, pipeline=pipeline)
