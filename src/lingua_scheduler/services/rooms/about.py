"""What a member says of itself: read from its messages, and checked."""

import msgspec

from lingua_scheduler.domain.rooms.rooms import OFFERS_VOICE, AboutMember, Participant, RoomErrorCode, shown_name
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.attempts.permissions import denial
from lingua_scheduler.services.rooms.entry import RoomRefusal
from lingua_scheduler.services.sessions.sessions import Session
from lingua_sdk.domain.languages import AUTO, tag_of
from lingua_sdk.protocol.session import RoomCreate, RoomJoin, RoomUpdate

_NO_LANGUAGE = "语言代码无效 ({field}: {why})"


def about_of(session: Session, message: RoomCreate | RoomJoin) -> AboutMember:
    """Without a language that can be read it wants the one that its session translates into."""
    terms = session.terms
    return AboutMember(
        name=shown_name(message.display_name),
        language=tag_of(message.preferred_lang or "") or _heard(terms),
        offers_voice=session.platform == OFFERS_VOICE,
        events=message.room_events is True,
        speech=message.speech is not False,
        src_lang=terms.src_lang,
    )


def member_of(session: Session, message: RoomCreate | RoomJoin) -> Participant:
    return Participant(session.session_id, session.owner, about_of(session, message), 0)


def updated(about: AboutMember, message: RoomUpdate) -> AboutMember:
    """What is absent stays. Raises RoomRefusal."""
    return msgspec.structs.replace(
        about,
        name=about.name if message.display_name is None else shown_name(message.display_name),
        language=_tag("preferred_lang", message.preferred_lang) or about.language,
        speech=about.speech if message.speech is None else message.speech,
        src_lang=_tag("src_lang", message.src_lang, may_be_auto=True) or about.src_lang,
    )


def terms_in(session: Session, src_lang: str) -> Terms:
    """Its terms when it speaks another language. Raises RoomRefusal if they cannot be served, or are not allowed."""
    terms = _speaking(session.terms, src_lang)
    if complaint := terms.complaint():
        raise RoomRefusal(RoomErrorCode.INVALID_LANGUAGE, _NO_LANGUAGE.format(field="src_lang", why=complaint))
    if refusal := denial(session.caller, terms.pools()):
        raise RoomRefusal(RoomErrorCode.DENIED, f"无权使用该语言 ({refusal.message})")
    return terms


def _speaking(terms: Terms, src_lang: str) -> Terms:
    """A dialect is one of the former language. Of two languages that are open, the other one is translated into."""
    tgt_lang = terms.tgt_lang
    if tgt_lang == AUTO and src_lang != AUTO:
        tgt_lang = (terms.lang_b if src_lang == terms.lang_a else terms.lang_a) or tgt_lang
    return terms._replace(src_lang=src_lang, tgt_lang=tgt_lang, dialect=None)


def _heard(terms: Terms) -> str:
    return terms.tgt_lang if terms.tgt_lang != AUTO else terms.lang_a or terms.tgt_lang


def _tag(field: str, text: str | None, *, may_be_auto: bool = False) -> str:
    """Empty if it is absent. Raises RoomRefusal."""
    if text is None:
        return ""
    tag = AUTO if may_be_auto and text.lower() == AUTO else tag_of(text)
    if tag is None:
        why = "expected a code such as en or zh"
        raise RoomRefusal(RoomErrorCode.INVALID_LANGUAGE, _NO_LANGUAGE.format(field=field, why=why))
    return tag
