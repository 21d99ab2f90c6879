from lingua_scheduler.services.access.visits import Shown, Via


def test_a_credential_does_not_show_in_a_traceback() -> None:
    assert "secret" not in repr(Shown("secret", Via.QUERY))
