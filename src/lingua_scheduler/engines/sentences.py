"""Cutting a text where translators want it cut."""

import re

# After a mark that ends a sentence, and the quotes that close with it; Chinese and Japanese put no space there.
_END = re.compile(r"(?<=[。！？])(?![”’」』])|(?<=[.!?…])\s+|(?<=[。！？][”’」』])")


def sentences(text: str) -> list[str]:
    return [part.strip() for part in _END.split(text) if part and part.strip()]
