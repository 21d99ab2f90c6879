"""Settings as they are declared."""

import msgspec
import pytest

from lingua_scheduler.configuration.fields import fields
from lingua_scheduler.settings import Settings


def test_every_number_has_limits_and_every_default_keeps_to_them() -> None:
    for known in fields():
        if known.type_name in {"int", "float"}:
            assert known.minimum is not None, known.name
            assert known.maximum is not None, known.name
    # msgspec does not check defaults by itself.
    assert msgspec.convert(msgspec.to_builtins(Settings()), Settings) == Settings()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Settings().server.port = 1  # type: ignore[misc]
