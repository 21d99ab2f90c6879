"""Pairs that somebody misses, and what is lacking, in words."""

import pytest

from lingua_scheduler.domain.watching.lost_pairs import Lack, lack_of, lost_pools
from tests.support.pictures import pair


@pytest.mark.parametrize(
    ("wanted", "lost"),
    [
        (["en:zh:speech"], []),
        (["en:zh:text"], []),
        (["en:fr:speech"], ["en:fr:speech"]),
        # Written, not spoken.
        (["en:pt:text"], []),
        (["en:pt:speech", "en:pt:text"], ["en:pt:speech"]),
        # Each pair once; who gets no text gets no speech either.
        (["en:fr:speech", "en:fr:text"], ["en:fr:text"]),
    ],
)
def test_which_pairs_are_lost(wanted: list[str], lost: list[str]) -> None:
    assert lost_pools(wanted, [pair(), pair("en:pt", nodes=0, text_nodes=1)], []) == lost


@pytest.mark.parametrize(
    ("src", "tgt", "facet", "lack", "words"),
    [
        ("ko", "zh", "speech", Lack.UNDERSTANDS, "No node understands Korean"),
        ("en", "ko", "speech", Lack.SPEAKS, "No node speaks Korean"),
        ("en", "ko", "text", Lack.WRITES, "No node writes Korean"),
        ("en", "pt", "speech", Lack.SPEAKS, "No node speaks Portuguese"),
        ("de", "zh", "speech", Lack.TRANSLATES, "No node translates German into Chinese"),
        ("en", "tlh", "speech", Lack.SPEAKS, "No node speaks tlh"),
    ],
)
def test_what_is_lacking(src: str, tgt: str, facet: str, lack: Lack, words: str) -> None:
    pairs = [pair("en:zh"), pair("de:en"), pair("en:pt", nodes=0, text_nodes=1)]
    found = lack_of(src, tgt, facet, pairs, [])
    assert (found, found.in_words(src, tgt)) == (lack, words)
