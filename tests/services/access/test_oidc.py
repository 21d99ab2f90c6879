"""The parts that need no provider; the whole way is in tests/security/test_oidc_logins.py."""

import sys
from pathlib import Path

import pytest

from lingua_scheduler.services.access.oidc import OidcUnusable, Returned, provider_of
from lingua_scheduler.setting_sections.access import OidcSettings

MODULE = "lingua_scheduler.services.access.oidc_provider"


def settings(path: Path | None = None) -> OidcSettings:
    file = "" if path is None else str(path)
    return OidcSettings(issuer="https://id.example", client_id="c", client_secret_file=file, roles={"a": "admin@*"})


def test_without_an_issuer_there_is_no_provider() -> None:
    assert provider_of(OidcSettings()) is None


def test_without_the_extra_the_command_to_install_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    monkeypatch.setitem(sys.modules, "authlib", None)
    monkeypatch.setitem(sys.modules, "authlib.deprecate", None)
    with pytest.raises(OidcUnusable, match=r'pip install "lingua-scheduler\[oidc\]"'):
        provider_of(settings())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_secret_that_others_can_read_is_not_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_text("planted-secret")
    path.chmod(mode)
    with pytest.raises(OidcUnusable, match="chmod 600") as refused:
        provider_of(settings(path))
    assert "planted-secret" not in str(refused.value)


@pytest.mark.parametrize("body", [b"", b"\n", b"a\nb", b"\xff\xfe", b"x" * 5000])
def test_a_file_that_does_not_hold_one_secret_is_not_used(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "secret"
    path.write_bytes(body)
    path.chmod(0o600)
    with pytest.raises(OidcUnusable, match="does not hold one secret"):
        provider_of(settings(path))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(OidcUnusable, match="cannot be read"):
        provider_of(settings(tmp_path / "none"))


def test_a_traceback_does_not_show_what_came_back() -> None:
    assert "planted" not in repr(Returned("planted", "planted", "planted", "planted"))
