"""What members say of themselves, by values."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.domain.rooms.rooms import AboutMember, RoomErrorCode
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.rooms.about import about_of, terms_in, updated
from lingua_scheduler.services.rooms.entry import RoomRefusal
from lingua_scheduler.services.sessions.sessions import Session
from lingua_sdk.domain.vocabulary import TWO_WAY_AUTO
from lingua_sdk.protocol.session import RoomJoin, RoomUpdate
from tests.support.principals import user

BOTH_WAYS = Terms("auto", "auto", mode=TWO_WAY_AUTO, lang_a="zh", lang_b="en")


def session(terms: Terms, principal: Principal = LOCAL, platform: str = "web") -> Session:
    return cast("Session", SimpleNamespace(terms=terms, caller=principal, platform=platform))


def refusal_of(step: Any, *arguments: Any) -> RoomErrorCode:
    with pytest.raises(RoomRefusal) as refused:
        step(*arguments)
    return refused.value.code


def test_what_can_be_read_of_a_join_is_kept() -> None:
    join = RoomJoin(room_code="1", display_name=" A\n", preferred_lang="zh_hans", room_events=True, speech=False)
    assert about_of(session(Terms("en", "pt")), join) == AboutMember(
        name="A", language="zh-Hans", offers_voice=True, events=True, speech=False, src_lang="en"
    )
    for wrong in (None, "", "no language", "x" * 200):
        about = about_of(session(Terms("en", "pt"), platform="sdk"), RoomJoin(room_code="1", preferred_lang=wrong))
        assert about == AboutMember(language="pt", src_lang="en")
    assert about_of(session(BOTH_WAYS), RoomJoin(room_code="1")).language == "zh"


def test_what_is_absent_of_an_update_stays() -> None:
    about = AboutMember(name="A", language="en", events=True, src_lang="zh", speech=False)
    assert updated(about, RoomUpdate(room_code="1")) == about
    changed = updated(
        about, RoomUpdate(room_code="1", display_name="", preferred_lang="PT", src_lang="JA", speech=True)
    )
    assert changed == AboutMember(language="pt", events=True, src_lang="ja")
    for wrong in ("auto", "", "no language"):
        update = RoomUpdate(room_code="1", preferred_lang=wrong)
        assert refusal_of(updated, about, update) is RoomErrorCode.INVALID_LANGUAGE
    assert refusal_of(updated, about, RoomUpdate(room_code="1", src_lang="?")) is RoomErrorCode.INVALID_LANGUAGE


def test_another_language_is_spoken_under_the_same_terms() -> None:
    terms = Terms("zh", "en", dialect="sichuan", enable_streaming_asr=True)
    assert terms_in(session(terms), "ja") == terms._replace(src_lang="ja", dialect=None)
    assert refusal_of(terms_in, session(terms), "auto") is RoomErrorCode.INVALID_LANGUAGE


def test_of_two_languages_the_other_one_is_translated_into() -> None:
    for spoken, other in (("zh", "en"), ("en", "zh"), ("ja", "zh")):
        terms = terms_in(session(BOTH_WAYS), spoken)
        assert (terms.src_lang, terms.tgt_lang) == (spoken, other)
        assert terms.complaint() is None
    assert terms_in(session(terms), "auto").src_lang == "auto"


def test_a_credential_for_some_pairs_speaks_these_alone() -> None:
    ann = user("ann", pairs=("zh:en", "ja:en"))
    assert terms_in(session(Terms("zh", "en"), ann), "ja").src_lang == "ja"
    assert refusal_of(terms_in, session(Terms("zh", "en"), ann), "fr") is RoomErrorCode.DENIED
