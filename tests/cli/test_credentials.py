"""Where commands look for a key, and how it is kept."""

import stat
from pathlib import Path

import pytest

from lingua_scheduler.cli.credentials import (
    KeySource,
    credentials_path,
    key_for,
    place_of,
    read_credentials,
    shown_to,
    source_of,
    write_credentials,
)
from lingua_scheduler.cli.options import Failure
from lingua_sdk.access import AccessDenied

URL = "wss://a.example"


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LINGUA_KEY", "LINGUA_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("wss://A.example", "https://a.example:443"),
        ("https://a.example/ws/node", "https://a.example:443"),
        ("ws://a.example", "http://a.example:80"),
        ("127.0.0.1:5010", "http://127.0.0.1:5010"),
        ("http://[::1]:5010/base/", "http://[::1]:5010/base"),
    ],
)
def test_an_address_has_one_name_however_it_is_typed(url: str, place: str) -> None:
    assert place_of(url) == place


def test_keys_are_kept_for_their_owner_alone() -> None:
    path = write_credentials({place_of(URL): 'quo"ted', "http://b:80": "other"})
    assert path == credentials_path()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert read_credentials() == {place_of(URL): 'quo"ted', "http://b:80": "other"}
    assert [one.name for one in path.parent.iterdir()] == ["credentials.toml"]


def test_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (key_for(URL), source_of(URL)) == ("", "")
    write_credentials({place_of(URL): "stored"})
    assert (key_for(URL), source_of(URL)) == ("stored", str(credentials_path()))
    (tmp_path / "key").write_text("of-file\n")
    monkeypatch.setenv("LINGUA_KEY_FILE", str(tmp_path / "key"))
    assert key_for(URL) == "of-file"
    assert "LINGUA_KEY_FILE" in source_of(URL)
    monkeypatch.setenv("LINGUA_KEY", "of-variable")
    assert (key_for(URL), source_of(URL)) == ("of-variable", "the variable LINGUA_KEY")
    monkeypatch.setenv("LINGUA_KEY", "")
    assert (key_for(URL), source_of(URL)) == ("", "")


def test_a_key_goes_nowhere_else() -> None:
    write_credentials({place_of(URL): "stored"})
    for other in ("ws://a.example", "wss://a.example:444", "wss://b.example", "wss://a.example/base"):
        assert key_for(other) == ""
    # What is in the address is for a proxy.
    assert key_for("wss://name:password@a.example") == ""


def test_files_that_others_may_read_get_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_credentials({place_of(URL): "stored"})
    shown_to(URL)
    assert capsys.readouterr().err == ""
    path.chmod(0o640)
    shown_to(URL)
    assert f"chmod 600 {path}" in capsys.readouterr().err
    key = tmp_path / "key"
    key.write_text("secret")
    key.chmod(0o644)
    monkeypatch.setenv("LINGUA_KEY_FILE", str(key))
    shown_to(URL)
    assert f"chmod 600 {key}" in capsys.readouterr().err


async def test_the_key_is_looked_for_at_each_connect_and_never_printed() -> None:
    source = shown_to(URL)
    assert await source() == ""
    write_credentials({place_of(URL): "stored"})
    assert await source() == "stored"
    assert "stored" not in repr(source) + str(vars(source))
    assert isinstance(source, KeySource)


@pytest.mark.parametrize("text", ["key = [broken lk_secret", '"http://a:80" = 5\n[x]\nkey = 7\n'])
def test_a_broken_file_gives_no_key_away(text: str) -> None:
    write_credentials({})
    credentials_path().write_text(text)
    if "broken" not in text:
        assert read_credentials() == {}
        return
    with pytest.raises(AccessDenied, match="it is not TOML"):
        read_credentials()
    with pytest.raises(Failure) as refused:
        shown_to(URL)
    assert "lk_secret" not in str(refused.value)


def test_a_relative_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert credentials_path() == Path.home() / ".config" / "lingua" / "credentials.toml"
