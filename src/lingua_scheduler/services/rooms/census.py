"""Counts the rooms of this instance for the picture of all."""

from collections import Counter
from collections.abc import Iterator

from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_scheduler.domain.watching.figures import NAMED_MAX
from lingua_scheduler.domain.watching.rooms import LANGUAGES_MAX, RoomFigures
from lingua_scheduler.services.dispatch.languages import LanguageLookup
from lingua_scheduler.services.rooms.room_here import RoomHere
from lingua_scheduler.services.rooms.rooms_here import RoomsHere
from lingua_sdk.domain.languages import AUTO


class RoomCensus:
    def __init__(self, instance: str, here: RoomsHere, languages: LanguageLookup) -> None:
        self._instance = instance
        self._here = here
        self._languages = languages

    def figures(self) -> RoomFigures:
        rooms = members = guests = 0
        languages: Counter[str] = Counter()
        pools: Counter[str] = Counter()
        for here in self._here:
            first = here.state.members[:1]
            rooms += bool(first) and first[0].instance == self._instance
            own = here.own
            members += len(own)
            guests += len(here.guests)
            languages.update(member.about.language for member in own if member.about.language)
            for (language, _), count in here.guests_want.items():
                languages[language] += count
            pools.update(self._needed(here))
        return RoomFigures(
            rooms=rooms,
            members=members,
            guests=guests,
            languages=dict(languages.most_common(LANGUAGES_MAX)),
            pools=dict(pools.most_common(NAMED_MAX)),
            lag=self._here.lag.lately(),
        )

    def _needed(self, here: RoomHere) -> Iterator[str]:
        """The pools that speakers need, without those for which they have private nodes."""
        for name, pool in _asked_for(here):
            if not self._languages.is_served_privately((pool,), here.sessions[name].whose):
                yield self._languages.nearest(pool)


def _asked_for(here: RoomHere) -> Iterator[tuple[str, str]]:
    """For each member here that may speak, the pools into the languages of the others."""
    for speaker in here.own:
        src = speaker.about.src_lang
        if src in ("", AUTO):
            continue
        others = {member.about.language for member in here.state.members if member is not speaker}
        others.update(language for at in here.state.guests for language in at.languages)
        yield from ((speaker.session_id, str(Pool(src, tgt, Facet.TEXT))) for tgt in sorted(others - {"", src}))
