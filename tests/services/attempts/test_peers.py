"""Close codes are a part of the protocol: peers of other releases know them by number."""

from lingua_scheduler.services.attempts.peers import CloseCode


def test_the_numbers_stay() -> None:
    numbers = {code.name: code.value for code in CloseCode}
    expected = {
        "MISBEHAVED": 1008,
        "COME_BACK": 1012,
        "TRY_LATER": 1013,
        "SUPERSEDED": 4001,
        "TOO_SLOW": 4002,
        "GUESSING": 4007,
    }
    assert numbers | expected == numbers
