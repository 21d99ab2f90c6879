"""Where data lies, unless a setting says otherwise."""

import re
from pathlib import Path

import pytest

from lingua_scheduler.configuration.data_dirs import credentials_path, default_data_dir, resolved_data_dir
from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.setting_sections.access import AuthSettings
from lingua_scheduler.setting_sections.redis import RedisSettings
from lingua_scheduler.settings import Settings


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


def test_each_redis_has_its_own_copy_of_the_credentials() -> None:
    def path(url: str, key_prefix: str = "lingua:v1", backup_file: str = "credentials.json") -> Path | None:
        redis = RedisSettings(data_dir="/data", url=url, key_prefix=key_prefix)
        return credentials_path(Settings(redis=redis, auth=AuthSettings(backup_file=backup_file)))

    one = path("redis://one:6379")
    assert one is not None
    assert re.fullmatch(r"/data/credentials-[0-9a-f]{12}\.json", str(one))
    assert one not in (path("redis://other:6379"), path("redis://one:6379", "other"))
    # A password may change; and what an operator names is taken as it is.
    assert path("redis://user:secret@one:6379") == one
    assert path("redis://one:6379", backup_file="/safe/keys.json") == Path("/safe/keys.json")
