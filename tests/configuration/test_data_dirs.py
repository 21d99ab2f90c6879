"""Where data lies, unless a setting says otherwise."""

from pathlib import Path

import pytest

from lingua_scheduler.configuration.data_dirs import credentials_path, default_data_dir, resolved_data_dir
from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.settings import AuthSettings, RedisSettings, Settings


def test_the_data_directory_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    linux = Path("/home/ada/.local/share/lingua-scheduler")
    assert default_data_dir(platform="linux") == linux
    assert default_data_dir({"XDG_DATA_HOME": "/xdg"}, "linux") == Path("/xdg/lingua-scheduler")
    assert default_data_dir({"XDG_DATA_HOME": "relative"}, "linux") == linux
    macos = Path("/home/ada/Library/Application Support/lingua-scheduler")
    assert default_data_dir({"XDG_DATA_HOME": "/xdg"}, "darwin") == macos


def test_a_data_directory_may_begin_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert resolved_data_dir(RedisSettings(data_dir="~/lingua")) == Path("/home/ada/lingua")
    assert resolved_data_dir(RedisSettings(data_dir="/data")) == Path("/data")
    assert resolved_data_dir(RedisSettings()) == default_data_dir()


def test_a_home_nobody_knows_is_an_error() -> None:
    with pytest.raises(SettingsError) as caught:
        resolved_data_dir(RedisSettings(data_dir="~no-such-user/lingua"))
    assert str(caught.value) == "no home directory is known; set redis.data_dir to an absolute path"


def test_the_copy_of_credentials_lies_with_the_data_unless_it_has_a_path_or_no_name() -> None:
    redis = RedisSettings(data_dir="/data")
    for name, path in (
        ("", None),
        ("keys.json", Path("/data/keys.json")),
        ("/safe/keys.json", Path("/safe/keys.json")),
    ):
        assert credentials_path(Settings(redis=redis, auth=AuthSettings(backup_file=name))) == path
    assert credentials_path(Settings(redis=redis)) == Path("/data/credentials.json")
