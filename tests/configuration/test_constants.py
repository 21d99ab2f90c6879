"""Former settings."""

from lingua_scheduler.configuration.constants import CONSTANTS
from lingua_scheduler.configuration.fields import fields


def test_no_constant_is_a_setting() -> None:
    assert not CONSTANTS & {field.name for field in fields()}
