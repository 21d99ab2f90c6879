"""Where settings come from, which of them wins, and what a mistake is answered with."""

from collections.abc import Mapping
from errno import EACCES
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.configuration.data_dirs import resolved_data_dir
from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.configuration.fields import Field, fields
from lingua_scheduler.configuration.loading import Loaded, load
from lingua_scheduler.settings import Settings

NOTHING: Mapping[str, Any] = {}


def loaded(
    path: Path | None = None, environment: Mapping[str, str] = NOTHING, flags: Mapping[str, object] = NOTHING
) -> Loaded:
    return load(config_path=path, environment=environment, flags=flags)


def refusal(
    path: Path | None = None, environment: Mapping[str, str] = NOTHING, flags: Mapping[str, object] = NOTHING
) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(path, environment, flags)
    return str(caught.value)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "lingua.toml"


def variable_of(name: str) -> str:
    return next(field.variable for field in fields() if field.name == name)


# Which value wins


def test_nothing_given_means_the_defaults() -> None:
    settings, origins, *_ = loaded()
    assert settings == Settings()
    assert set(origins.values()) == {"default"}
    assert list(origins) == [field.name for field in fields()]


def test_what_is_a_constant_now_is_read_with_a_hint_wherever_it_is_given(config: Path) -> None:
    config.write_text("[watch]\nhistory = 7\n")
    environment, flags = {"LINGUA_INBOX_MAX_DEAD_LETTERS": "7"}, {"catalogue.max_bytes": "garbage"}
    settings, origins, hints, *_ = loaded(config, environment, flags)
    assert settings == Settings()
    assert set(origins.values()) == {"default"}
    assert hints == (
        f"watch.history (file {config}) is a constant now and not read any more; remove it",
        "inbox.max_dead_letters (environment LINGUA_INBOX_MAX_DEAD_LETTERS) is a constant now and not read any more; "
        "remove it",
        "catalogue.max_bytes (flag) is a constant now and not read any more; remove it",
    )


def test_a_flag_beats_the_environment_which_beats_the_file(config: Path) -> None:
    config.write_text("[server]\nport = 1\nmax_nodes = 1\nmax_sessions = 1\n")
    environment = {"LINGUA_SERVER_PORT": "2", "LINGUA_SERVER_MAX_NODES": "2"}
    settings, origins, *_ = loaded(config, environment, {"server.port": "3"})
    assert (settings.server.port, origins["server.port"]) == (3, "flag")
    assert settings.server.max_nodes == 2
    assert origins["server.max_nodes"] == "environment LINGUA_SERVER_MAX_NODES"
    assert (settings.server.max_sessions, origins["server.max_sessions"]) == (1, f"file {config}")
    assert (settings.server.host, origins["server.host"]) == ("127.0.0.1", "default")


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    settings, origins, *_ = loaded(flags={"server.port": None})
    assert (settings.server.port, origins["server.port"]) == (5010, "default")


def test_a_flag_may_have_its_type_already() -> None:
    settings = loaded(flags={"server.port": 0, "redis.wait": True, "job.timeout_factor": 3}).settings
    assert (settings.server.port, settings.redis.wait, settings.job.timeout_factor) == (0, True, 3.0)


def test_a_variable_may_name_the_file(config: Path) -> None:
    config.write_text("[logs]\nlevel = 'debug'\n")
    settings, origins, *_ = loaded(environment={"LINGUA_CONFIG": str(config)})
    assert (settings.logs.level, origins["logs.level"]) == ("debug", f"file {config}")


def test_the_config_flag_beats_the_config_variable(config: Path) -> None:
    config.write_text("[logs]\nlevel = 'debug'\n")
    assert loaded(config, {"LINGUA_CONFIG": "/nowhere.toml"}).settings.logs.level == "debug"


def test_an_empty_config_variable_names_no_file() -> None:
    assert loaded(environment={"LINGUA_CONFIG": ""}).settings == Settings()


def test_variables_of_others_are_left_alone() -> None:
    assert loaded(environment={"SERVER_PORT": "1", "LINGUAPHONE": "x", "PATH": "/bin"}).settings == Settings()


def test_an_empty_table_is_fine(config: Path) -> None:
    config.write_text("[server]\n")
    assert loaded(config).settings == Settings()


@pytest.mark.parametrize("field", list(fields()), ids=lambda field: field.name)
def test_every_setting_can_be_given_by_variable_and_flag(field: Field) -> None:
    text = ",".join(field.default) if isinstance(field.default, tuple) else str(field.default)
    for given in (loaded(environment={field.variable: text}), loaded(flags={field.name: text})):
        assert given.settings == Settings()
        assert given.origins[field.name] in {f"environment {field.variable}", "flag"}


# What a text means


@pytest.mark.parametrize("text", ["true", "1", "yes", "on", "TRUE", "On", " yes "])
def test_a_text_that_means_yes(text: str) -> None:
    assert loaded(environment={"LINGUA_REDIS_WAIT": text}).settings.redis.wait is True


@pytest.mark.parametrize("text", ["false", "0", "no", "off", "FALSE", "Off"])
def test_a_text_that_means_no(text: str) -> None:
    assert loaded(flags={"redis.wait": text}).settings.redis.wait is False


def test_a_text_becomes_the_type_of_its_setting() -> None:
    settings = loaded(flags={"job.max_retries": "0", "job.timeout_factor": "1.5", "redis.url": "1"}).settings
    assert (settings.job.max_retries, settings.job.timeout_factor, settings.redis.url) == (0, 1.5, "1")


def test_a_whole_number_in_the_file_is_fine_for_a_fraction(config: Path) -> None:
    config.write_text("[job]\ntimeout_factor = 3\n")
    assert loaded(config).settings.job.timeout_factor == 3.0


# Unknown names


def test_an_unknown_key_names_the_nearest(config: Path) -> None:
    config.write_text("[server]\nprot = 1\n")
    assert refusal(config) == f'unknown setting "server.prot" in {config}; did you mean "server.port"?'


def test_an_unknown_variable_names_the_nearest() -> None:
    assert refusal(environment={"LINGUA_SERVER_PROT": "1"}) == (
        'unknown setting "LINGUA_SERVER_PROT" in the environment; did you mean "LINGUA_SERVER_PORT"?'
    )


def test_an_unknown_flag_names_the_nearest() -> None:
    assert refusal(flags={"server.prot": "1"}) == (
        'unknown setting "server.prot" in the flags; did you mean "server.port"?'
    )


@pytest.mark.parametrize(
    ("text", "name", "meant"),
    [
        ("[sevrer]\nport = 1", "sevrer.port", "server.port"),
        ("[sevrer]", "sevrer", "[server]"),
        ("server = 5", "server", "[server]"),
        ("port = 5", "port", "server.port"),
        ("[server]\nmax_held = 5", "server.max_held", "delivery.max_held"),
        ("[Server]\nPort = 5", "Server.Port", "server.port"),
        ("[server.hosts]", "server.hosts", "server.host"),
    ],
)
def test_the_nearest_is_found_across_sections(config: Path, text: str, name: str, meant: str) -> None:
    config.write_text(text)
    assert refusal(config) == f'unknown setting "{name}" in {config}; did you mean "{meant}"?'


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("LINGUA_PORT", "LINGUA_SERVER_PORT"),
        ("LINGUA_server_port", "LINGUA_SERVER_PORT"),
        ("LINGUA_CONFG", "LINGUA_CONFIG"),
    ],
)
def test_the_nearest_variable_is_found_without_its_section(variable: str, meant: str) -> None:
    assert refusal(environment={variable: "1"}) == (
        f'unknown setting "{variable}" in the environment; did you mean "{meant}"?'
    )


def test_a_name_near_to_nothing_is_sent_to_the_list(config: Path) -> None:
    config.write_text("[zzz]\nqqq = 1\n")
    assert refusal(config) == f'unknown setting "zzz.qqq" in {config}; see docs/settings.md for the list'
    assert refusal(environment={"LINGUA_QQQ": "1"}) == (
        'unknown setting "LINGUA_QQQ" in the environment; see docs/settings.md for the list'
    )


def test_all_mistakes_are_named_at_once(config: Path) -> None:
    config.write_text("[server]\nprot = 1\nhots = 2\n[zzz]\nqqq = 1\n[job]\nmax_retries = -1\n")
    lines = refusal(config, {"LINGUA_QQQ": "1"}, {"server.wokers": "2"}).splitlines()
    named = ("server.prot", "server.hots", "zzz.qqq", "job.max_retries", "LINGUA_QQQ", "server.wokers")
    assert len(lines) == len(named)
    assert all(name in line for name, line in zip(named, lines, strict=True))


# The working directory


def test_the_file_of_the_working_directory_is_read_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[server]\nport = 1\n")
    found = load(config_path=None, environment=NOTHING, flags=NOTHING, working_dir=tmp_path)
    assert (found.settings.server.port, found.origins["server.port"], found.file) == (1, f"file {path}", path)
    assert found.notice == f"settings are read from {path}; name another file with --config"


def test_a_file_that_is_named_comes_before_that_of_the_working_directory(tmp_path: Path, config: Path) -> None:
    (tmp_path / "config.toml").write_text("[server]\nport = 1\n")
    config.write_text("[server]\nport = 2\n")
    for path, environment in ((config, NOTHING), (None, {"LINGUA_CONFIG": str(config)})):
        found = load(config_path=path, environment=environment, flags=NOTHING, working_dir=tmp_path)
        assert (found.settings.server.port, found.notice) == (2, "")


def test_a_file_of_another_program_is_left_alone_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[server]\nport = 1\n[build]\njobs = 2\n")
    found = load(config_path=None, environment=NOTHING, flags=NOTHING, working_dir=tmp_path)
    assert (found.settings, found.file) == (Settings(), None)
    assert "is not read" in found.notice
    assert '"build"' in found.notice


def test_a_working_directory_that_its_user_cannot_enter_has_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for the user of a service, by whom root runs a command in its own home."""

    def denied(path: Path) -> bool:
        raise PermissionError(EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", denied)
    found = load(config_path=None, environment=NOTHING, flags=NOTHING, working_dir=tmp_path)
    assert (found.settings, found.file, found.notice) == (Settings(), None, "")


# Wrong values


@pytest.mark.parametrize(
    ("name", "text", "shown", "expected"),
    [
        ("server.port", "abc", '"abc"', "a whole number from 0 to 65535"),
        ("server.port", "", '""', "a whole number from 0 to 65535"),
        ("server.port", "5.0", '"5.0"', "a whole number from 0 to 65535"),
        ("server.port", "65536", "65536", "a whole number from 0 to 65535"),
        ("server.port", "-1", "-1", "a whole number from 0 to 65535"),
        ("pools.shard_size", "0", "0", "a whole number from 1 to 1000"),
        ("pools.shard_size", "1001", "1001", "a whole number from 1 to 1000"),
        ("job.timeout_factor", "much", '"much"', "a number from 0 to 100"),
        ("job.timeout_factor", "nan", "NaN", "a number from 0 to 100"),
        ("job.timeout_factor", "inf", "Infinity", "a number from 0 to 100"),
        ("redis.wait", "maybe", '"maybe"', "true or false"),
        ("redis.key_prefix", "a{b}", '"a{b}"', 'only letters, digits, ":", "_" and "-"'),
        ("redis.key_prefix", "", '""', 'only letters, digits, ":", "_" and "-"'),
        ("redis.key_prefix", "a\n", '"a\\n"', 'only letters, digits, ":", "_" and "-"'),
        ("server.host", "", '""', "a host name or address"),
        ("pools.admission", "lax", '"lax"', 'one of "strict", "asr_tts", "asr_semantic"'),
        ("selection.affinity", "node", '"node"', 'one of "turn", "session"'),
    ],
)
def test_a_wrong_value_says_what_is_expected(name: str, text: str, shown: str, expected: str) -> None:
    variable = variable_of(name)
    assert refusal(environment={variable: text}) == (f"{name} = {shown} (environment {variable}): expected {expected}")
    assert refusal(flags={name: text}) == f"{name} = {shown} (flag): expected {expected}"


@pytest.mark.parametrize(
    ("section", "line", "sentence"),
    [
        ("server", 'port = "5010"', 'server.port = "5010" ({}): expected a whole number from 0 to 65535'),
        ("server", "port = true", "server.port = true ({}): expected a whole number from 0 to 65535"),
        ("server", "port = 1.0", "server.port = 1.0 ({}): expected a whole number from 0 to 65535"),
        ("server", "port = 1979-05-27", 'server.port = "1979-05-27" ({}): expected a whole number'),
        ("server", "host = {a = 1}", 'server.host = {{"a": 1}} ({}): expected a host name or address'),
        ("redis", 'wait = "yes"', 'redis.wait = "yes" ({}): expected true or false'),
        ("redis", "wait = 1", "redis.wait = 1 ({}): expected true or false"),
        ("redis", "url = 1", "redis.url = 1 ({}): expected a string"),
        ("job", 'timeout_factor = "2"', 'job.timeout_factor = "2" ({}): expected a number from 0 to 100'),
    ],
)
def test_values_in_the_file_keep_their_type(config: Path, section: str, line: str, sentence: str) -> None:
    config.write_text(f"[{section}]\n{line}\n")
    assert refusal(config).startswith(sentence.format(f"file {config}"))


def test_a_wrong_value_in_the_file_is_refused_even_when_a_flag_replaces_it(config: Path) -> None:
    config.write_text("[server]\nport = -1\n")
    assert "server.port = -1" in refusal(config, flags={"server.port": 5010})


def test_a_node_may_not_get_more_slots_by_default_than_it_may_claim() -> None:
    assert refusal(flags={"nodes.max_jobs": "2"}) == (
        "nodes.default_max_jobs = 4 (default) is above nodes.max_jobs = 2 (flag); lower the first or raise the second"
    )
    assert loaded(flags={"nodes.max_jobs": "4"}).settings.nodes.max_jobs == 4


def test_the_base_of_a_timeout_may_not_be_above_its_limit() -> None:
    assert refusal(environment={"LINGUA_JOB_TIMEOUT_BASE_MS": "60001"}) == (
        "job.timeout_base_ms = 60001 (environment LINGUA_JOB_TIMEOUT_BASE_MS) is above "
        "job.timeout_max_ms = 60000 (default); lower the first or raise the second"
    )


def test_the_largest_utterance_must_fit_into_a_body() -> None:
    assert refusal(flags={"server.max_body_bytes": "600000"}) == (
        "server.max_body_bytes = 600000 (flag) is too small for an utterance of sessions.max_utterance_bytes = 512000 "
        "(default) as base64; set it to at least 690858"
    )
    assert loaded(flags={"server.max_body_bytes": "690858"}).settings.server.max_body_bytes == 690_858


# The file itself


def test_a_missing_file_is_an_error(config: Path) -> None:
    assert refusal(config) == (f"cannot read {config}: No such file or directory; name a readable file")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    assert refusal(environment={"LINGUA_CONFIG": str(tmp_path)}) == (
        f"cannot read {tmp_path}: Is a directory; name a readable file"
    )


def test_bad_toml_is_told_with_its_line(config: Path) -> None:
    config.write_text("[server]\nport = = 1\n")
    assert refusal(config) == (f"{config} is not valid TOML: Invalid value (at line 2, column 8); correct it there")


def test_a_file_that_is_not_text_is_told(config: Path) -> None:
    config.write_bytes(b"\xff\xfe\x00")
    assert refusal(config).startswith(f"{config} is not valid TOML: 'utf-8' codec can't decode byte 0xff")


# The data directory


def test_an_empty_data_directory_follows_xdg_and_says_so(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    config.write_text("[redis]\ndata_dir = ''\n")
    settings, origins, *_ = loaded(config, {"XDG_DATA_HOME": "/xdg"})
    assert resolved_data_dir(settings.redis) == Path("/xdg/lingua-scheduler")
    assert origins["redis.data_dir"] == "environment XDG_DATA_HOME"


def test_a_given_data_directory_beats_xdg() -> None:
    settings, origins, *_ = loaded(environment={"XDG_DATA_HOME": "/xdg"}, flags={"redis.data_dir": "/data"})
    assert (settings.redis.data_dir, origins["redis.data_dir"]) == ("/data", "flag")


# Lists


def test_a_list_is_an_array_in_the_file_and_may_have_commas_elsewhere(config: Path) -> None:
    config.write_text('[server]\nallowed_origins = ["https://a.example", "app://b"]\n')
    both = ("https://a.example", "app://b")
    assert loaded(config).settings.server.allowed_origins == both
    arrays = ('["https://a.example", "app://b"]', " ['https://a.example','app://b',] ")
    for text in ("https://a.example,app://b", " https://a.example , app://b,", *arrays):
        assert loaded(environment={"LINGUA_SERVER_ALLOWED_ORIGINS": text}).settings.server.allowed_origins == both
        assert loaded(flags={"server.allowed_origins": text}).settings.server.allowed_origins == both


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("server.allowed_origins", "app.example"),
        ("server.allowed_origins", "null"),
        ("server.allowed_hosts", "https://app.example"),
        ("server.allowed_hosts", "app.example:5010"),
        ("server.trusted_proxies", "proxy.example"),
        ("server.unmetered_addresses", "10.0.0.0/33"),
    ],
)
def test_an_item_that_means_nothing_is_refused(name: str, text: str) -> None:
    told = refusal(flags={name: f"{text}"})
    assert name in told
    assert f'"{text}"' in told
    assert "expected" in told


def test_an_array_without_quotes_is_refused_with_both_ways_to_write_a_list() -> None:
    told = refusal(flags={"server.allowed_origins": "[https://a.example]"})
    assert told.endswith("""; write a,b or '["a", "b"]'""")
    assert "expected a list of strings" in refusal(flags={"server.allowed_origins": "[1, 2]"})


def test_brackets_may_belong_to_an_address() -> None:
    assert loaded(flags={"server.allowed_hosts": "[::1],a.example"}).settings.server.allowed_hosts == (
        "[::1]",
        "a.example",
    )


def test_a_text_in_the_file_is_no_list(config: Path) -> None:
    config.write_text('[server]\nallowed_origins = "https://a.example"\n')
    assert "expected a list of strings" in refusal(config)


def test_the_address_of_a_scheduler_in_the_environment_is_for_other_commands() -> None:
    assert loaded(environment={"LINGUA_URL": "ws://127.0.0.1:5010"}).settings == Settings()
