"""Kinds of values: what each accepts and refuses."""

from typing import Any

import msgspec
import pytest

from lingua_scheduler.setting_sections import kinds

LIMITS = [
    (kinds.Count, 1, 1_000_000),
    (kinds.UpToThousand, 1, 1000),
    (kinds.Percent, 1, 100),
    (kinds.Bytes, 1024, 2**30),
    (kinds.KeepMs, 1, 30 * kinds.DAY_MS),
    (kinds.PeriodMs, 1, kinds.DAY_MS),
    (kinds.LookMs, 100, kinds.DAY_MS),
    (kinds.WaitMs, 0, kinds.DAY_MS),
]


@pytest.mark.parametrize(("kind", "least", "most"), LIMITS)
def test_a_kind_accepts_its_limits_and_refuses_what_is_beyond(kind: Any, least: int, most: int) -> None:
    assert [msgspec.convert(value, kind) for value in (least, most)] == [least, most]
    for value in (least - 1, most + 1):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(value, kind)


def test_a_description_is_what_the_documentation_shows() -> None:
    assert kinds.doc("Port to listen on").description == "Port to listen on"
