"""The configuration of earlier schedulers is read: each key is translated, or it is said why it has no meaning."""

from pathlib import Path

import pytest

from lingua_scheduler.configuration.earlier import NOT_USED, TRANSLATED
from lingua_scheduler.configuration.errors import SettingsError
from lingua_scheduler.configuration.fields import KNOWN
from lingua_scheduler.configuration.loading import Loaded, load

WHOLE = """
[server]
port = 5011
host = "0.0.0.0"

[model_hub]
base_url = "http://localhost:5000"
storage_path = "./models"

[scheduler]
max_concurrent_jobs_per_node = 3
job_timeout_seconds = 30
heartbeat_interval_seconds = 10

[scheduler.phase2]
enabled = true
instance_id = "scheduler-1"
heartbeat_ttl_seconds = 30
owner_ttl_seconds = 45
stream_block_ms = 1000
stream_count = 64
stream_group = "scheduler"
stream_maxlen = 9000
dlq_enabled = true
dlq_maxlen = 10000
dlq_max_deliveries = 10
dlq_min_idle_ms = 60000
dlq_scan_interval_ms = 5000
dlq_scan_count = 100

[scheduler.phase2.redis]
mode = "single"
url = "redis://db:6379"
key_prefix = "lingua-prod"

[scheduler.phase2.node_snapshot]
enabled = true
presence_ttl_seconds = 45

[scheduler.phase3]
enabled = false
mode = "two_level"
pool_count = 16
random_sample_size = 30
enable_session_affinity = true

[[scheduler.phase3.pools]]
pool_id = 10
name = "core_all"

[scheduler.load_balancer]
strategy = "least_connections"
resource_threshold = 75.0

[scheduler.node_health]
heartbeat_interval_seconds = 15
heartbeat_timeout_seconds = 45

[scheduler.node_health.failure_threshold]
window_size = 6
failure_count = 4
consecutive_failure_count = 2
"""


def read(tmp_path: Path, text: str) -> Loaded:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load(config_path=path, environment={}, flags={})


def test_a_whole_file_means_what_it_meant(tmp_path: Path) -> None:
    settings, origins, hints, *_ = read(tmp_path, WHOLE)
    assert (settings.server.port, settings.server.host, settings.server.instance_id) == (5011, "0.0.0.0", "scheduler-1")
    assert (settings.redis.url, settings.redis.key_prefix) == ("redis://db:6379", "lingua-prod")
    assert (settings.instances.dead_ms, settings.inbox.max_length, settings.inbox.max_deliveries) == (30_000, 9000, 10)
    assert (settings.nodes.default_max_jobs, settings.job.timeout_base_ms) == (3, 30_000)
    assert (settings.nodes.heartbeat_interval_ms, settings.nodes.missed_heartbeats) == (15_000, 3)
    assert (settings.selection.sample_k, settings.selection.affinity) == (30, "session")
    nodes = settings.nodes
    assert (nodes.max_cpu_percent, nodes.max_memory_percent, nodes.max_gpu_percent) == (75, 75, 75)
    assert (nodes.quarantine_window, nodes.quarantine_failures, nodes.quarantine_consecutive) == (6, 4, 2)
    assert origins["redis.url"] == f"file {tmp_path / 'config.toml'}, scheduler.phase2.redis.url"
    assert origins["job.max_retries"] == "default"
    # One line for each key that was read: what it is called now, or why it is gone.
    older = [line for line in WHOLE.partition("[model_hub]")[2].splitlines() if " = " in line]
    # Tables of pools are one key, and the threshold sets three settings.
    assert len(hints) == len(older) - 1 + 2


def test_the_section_may_stand_at_the_top_or_have_its_later_name(tmp_path: Path) -> None:
    for section in ("phase2", "scheduler.phase2", "scheduler.redis_runtime"):
        text = f'[{section}]\nenabled = true\nredis_url = "redis://db:6379/1"\ninstance_id = ""\n'
        settings, *_ = read(tmp_path, text)
        assert (settings.redis.url, settings.server.instance_id) == ("redis://db:6379/1", "auto")
    settings, *_ = read(tmp_path, "[phase3]\nrandom_sample_size = 7\npool_count = 16\n")
    assert settings.selection.sample_k == 7


@pytest.mark.parametrize(
    ("urls", "url"),
    [
        ('["redis://a:7000", "redis://b:7001/0"]', "redis+cluster://a:7000,b:7001"),
        ('["rediss://u:p%40@a:7000", "rediss://u:p%40@b:7001"]', "rediss+cluster://u:p%40@a:7000,b:7001"),
    ],
)
def test_the_members_of_a_cluster_become_one_address(tmp_path: Path, urls: str, url: str) -> None:
    text = f'[phase2.redis]\nmode = "cluster"\nurl = "redis://unused"\ncluster_urls = {urls}\n'
    settings, _, hints, *_ = read(tmp_path, text)
    assert settings.redis.url == url
    assert any("phase2.redis.url" in hint and "cluster" in hint for hint in hints)


def test_members_of_a_cluster_that_is_not_used_are_not_used(tmp_path: Path) -> None:
    text = '[phase2.redis]\nmode = "single"\nurl = "redis://db"\ncluster_urls = ["redis://a:7000"]\n'
    assert read(tmp_path, text).settings.redis.url == "redis://db"


def test_without_phase_2_there_was_no_redis_so_an_embedded_one_is_started(tmp_path: Path) -> None:
    text = '[scheduler.phase2]\nenabled = false\n[scheduler.phase2.redis]\nurl = "redis://127.0.0.1:6379"\n'
    settings, _, hints, *_ = read(tmp_path, text)
    assert settings.redis.url == ""
    assert any("embedded" in hint for hint in hints)


def test_a_setting_under_its_present_name_wins(tmp_path: Path) -> None:
    settings, *_ = read(tmp_path, '[redis]\nurl = "redis://new"\n[phase2]\nredis_url = "redis://old"\n')
    assert settings.redis.url == "redis://new"


@pytest.mark.parametrize("value", ['"soon"', "[1]", "-1"])
def test_a_value_that_cannot_be_converted_is_refused_under_both_names(tmp_path: Path, value: str) -> None:
    with pytest.raises(SettingsError, match=r"job\.timeout_base_ms = .*scheduler\.job_timeout_seconds"):
        read(tmp_path, f"[scheduler]\njob_timeout_seconds = {value}\n")


def test_unknown_keys_of_old_sections_are_named_together(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, "scheduler = 5\n[phase2]\nowner_tll = 1\n[phase2.redis]\nmode = 'single'\n[model_hub]\nx = 1\n")
    assert {line.split('"')[1] for line in str(caught.value).splitlines()} == {
        "scheduler",
        "phase2.owner_tll",
        "model_hub.x",
    }


@pytest.mark.parametrize("key", ["phase2.redis.key_prefx", "phase2.redis.cluster_url", "phase3.random_sample_sise"])
def test_a_slip_in_a_section_without_a_meaning_is_unknown(tmp_path: Path, key: str) -> None:
    """It would be said to have no effect, and the setting that was meant would have its default."""
    section, _, name = key.rpartition(".")
    with pytest.raises(SettingsError, match=f'unknown setting "{key}"'):
        read(tmp_path, f"[{section}]\n{name} = 1\nimage = 2\n")
    hints = read(tmp_path, f"[{section}]\nimage = 2\n").hints
    assert [hint.partition(" ")[0] for hint in hints] == [f"{section}.image"]


def test_every_translation_leads_to_a_setting_that_exists() -> None:
    assert {name for translation in TRANSLATED.values() for name in translation.names} <= KNOWN.keys()
    assert not TRANSLATED.keys() & NOT_USED.keys()


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("job_timeout_seconds = 30", "is job.timeout_base_ms now; write job.timeout_base_ms = 30000"),
        ("max_retry = 2", "is job.max_retries now; rename it"),
        (
            "node_health.heartbeat_timeout_seconds = 45",
            "is nodes.missed_heartbeats now; write nodes.missed_heartbeats = 3",
        ),
        (
            "phase3.enable_session_affinity = true",
            'is selection.affinity now; write selection.affinity = "session"',
        ),
    ],
)
def test_a_hint_has_the_new_line_where_the_value_changes_too(tmp_path: Path, line: str, step: str) -> None:
    (hint,) = read(tmp_path, f"[scheduler]\n{line}\n").hints
    assert hint.endswith(step)


def test_a_hint_does_not_repeat_a_password(tmp_path: Path) -> None:
    text = '[phase2.redis]\nmode = "cluster"\ncluster_urls = ["redis://u:secret@a:7000", "redis://u:secret@b:7001"]\n'
    hints = read(tmp_path, text).hints
    assert any("write all addresses as one" in hint for hint in hints)
    assert not any("secret" in hint for hint in hints)
