from lingua_scheduler.domain.access.principals import LOCAL
from lingua_scheduler.services.attempts.permissions import denial
from tests.support.principals import user


def test_every_pair_must_be_allowed() -> None:
    some = user("ada", pairs=("zh:en", "de:en"))
    assert denial(some, ("zh:en:speech", "de:en:speech")) is None
    refusal = denial(some, ("zh:en:speech", "fr:en:speech"))
    assert refusal is not None
    assert (refusal.code, refusal.message) == (
        "PERMISSION_DENIED",
        "this credential does not allow fr→en; it allows zh:en, de:en",
    )


def test_a_credential_without_pairs_allows_all() -> None:
    assert denial(user("ada"), ("fr:en:text",)) is None
    assert denial(LOCAL, ("fr:en:text",)) is None


def test_a_long_list_of_pairs_is_told_in_part() -> None:
    refusal = denial(
        user("ada", pairs=tuple(f"{code}:en" for code in ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr"])),
        ("x:y:text",),
    )
    assert refusal is not None
    assert refusal.message.endswith("op:en, …")
