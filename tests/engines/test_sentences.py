"""Texts are cut into sentences, and pieces become a text again."""

import pytest

from lingua_scheduler.engines.sentences import joined, sentences


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Good morning. How are you?", ["Good morning.", "How are you?"]),
        ("你好！请问火车站在哪里？谢谢。", ["你好！", "请问火车站在哪里？", "谢谢。"]),
        ("他说：“走吧。”我们走。", ["他说：“走吧。”", "我们走。"]),
        ("At 9.30 p.m", ["At 9.30 p.m"]),
        ("  ", []),
    ],
)
def test_a_text_is_cut_into_sentences(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts


def test_pieces_become_a_text() -> None:
    assert joined(["▁Hello", ".", "▁Where", "'", "s", "▁the", "▁cat", "?"]) == "Hello. Where's the cat?"
