"""Kinds of values that settings of several sections have."""

from typing import Annotated

from msgspec import Meta

DAY_MS = 86_400_000

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
UpToThousand = Annotated[int, Meta(ge=1, le=1000)]
KeepMs = Annotated[int, Meta(ge=1, le=30 * DAY_MS)]
Percent = Annotated[int, Meta(ge=1, le=100)]
Bytes = Annotated[int, Meta(ge=1024, le=2**30)]
PeriodMs = Annotated[int, Meta(ge=1, le=DAY_MS)]
LookMs = Annotated[int, Meta(ge=100, le=DAY_MS)]
WaitMs = Annotated[int, Meta(ge=0, le=DAY_MS)]
Texts = tuple[str, ...]


def doc(description: str) -> Meta:
    return Meta(description=description)
