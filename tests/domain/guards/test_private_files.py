import pytest

from lingua_scheduler.domain.guards.private_files import is_exposed

ROOT, SERVICE, SOMEONE = 0, 10001, 1000


@pytest.mark.parametrize("owner", [ROOT, SERVICE, SOMEONE])
@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700])
def test_a_file_of_its_owner_alone_is_private(owner: int, mode: int) -> None:
    assert not is_exposed(mode, owner, SERVICE)


@pytest.mark.parametrize("owner", [ROOT, SERVICE, SOMEONE])
@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o620, 0o660, 0o444, 0o442])
def test_a_file_that_all_can_use_or_a_group_can_write_is_exposed(owner: int, mode: int) -> None:
    assert is_exposed(mode, owner, SERVICE)


def test_a_group_may_read_what_root_lends_to_a_service_as_in_a_mounted_secret() -> None:
    assert not is_exposed(0o440, ROOT, SERVICE)
    assert not is_exposed(0o640, ROOT, SERVICE)


@pytest.mark.parametrize(("owner", "process"), [(SERVICE, SERVICE), (SOMEONE, SERVICE), (ROOT, ROOT), (SERVICE, ROOT)])
def test_a_group_may_not_read_any_other_file(owner: int, process: int) -> None:
    assert is_exposed(0o440, owner, process)
    assert is_exposed(0o610, owner, process)
