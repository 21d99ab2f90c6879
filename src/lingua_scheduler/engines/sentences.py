"""Texts as translators take and make them: sentence by sentence, in pieces."""

import re

# After a mark that ends a sentence, and the quotes that close with it; Chinese and Japanese put no space there.
_END = re.compile(r"(?<=[。！？])(?![”’」』])|(?<=[.!?…])\s+|(?<=[。！？][”’」』])")


def sentences(text: str) -> list[str]:
    return [part.strip() for part in _END.split(text) if part and part.strip()]


def joined(pieces: list[str]) -> str:
    """Of SentencePiece's pieces: a low line stands for a space. Its own way back leaves those it does not know."""
    return " ".join("".join(pieces).replace("▁", " ").split())
