"""The units, the sample settings and the commands of docs/deploy-systemd.md: systemd and the loader accept them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lingua_scheduler.cli.main import main
from lingua_scheduler.configuration.loading import load
from lingua_scheduler.setting_sections.server import ServerSettings
from tools import docs

PAGE = docs.DOCS / "deploy-systemd.md"
UNITS = docs.ROOT / "deploy" / "systemd"
each_unit = pytest.mark.parametrize("unit", sorted(UNITS.glob("*.service")), ids=lambda path: path.name)
# What systemd itself calls "OK" ends at 4.9; ours are far below, and shall stay there. The node may need the GPU.
MOST_EXPOSED = {"lingua.service": 1.5, "lingua@.service": 1.5, "lingua-node.service": 2.0}


def systemd_analyze(*arguments: str) -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def values(unit: Path, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", unit.read_text("utf-8"), re.MULTILINE)


@each_unit
def test_systemd_accepts_a_unit(unit: Path, tmp_path: Path) -> None:
    # The program is elsewhere here; a template is checked as one of its instances.
    installed = tmp_path / unit.name.replace("@.", "@5011.")
    text = unit.read_text("utf-8").replace(
        "/opt/lingua/.venv/bin/lingua", str(Path(sys.executable).with_name("lingua"))
    )
    installed.write_text(text)
    assert systemd_analyze("verify", "--man=no", str(installed)) == ""


@each_unit
def test_a_unit_leaves_little_of_the_machine_open(unit: Path) -> None:
    told = systemd_analyze("security", "--offline=true", str(unit))
    level = re.search(r"exposure level for \S+: ([\d.]+)", told)
    assert level is not None, told
    assert float(level[1]) <= MOST_EXPOSED[unit.name]


@each_unit
def test_a_unit_starts_a_command_that_exists_with_options_that_exist(unit: Path) -> None:
    (start,) = values(unit, "ExecStart")
    program, command, *words = shlex.split(start)
    assert program == "/opt/lingua/.venv/bin/lingua"
    known = {option for one in main.commands[command].params for option in one.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("name", ["lingua.service", "lingua@.service"])
def test_a_scheduler_gets_the_time_to_stop_that_it_needs(name: str) -> None:
    (stop_s,) = values(UNITS / name, "TimeoutStopSec")
    assert int(stop_s) > ServerSettings().stop_timeout_ms / 1000 + 10
    assert values(UNITS / name, "Type") == ["notify"]


def test_the_sample_of_settings_can_be_loaded_without_a_word(tmp_path: Path) -> None:
    loaded = load(config_path=docs.ROOT / "deploy" / "lingua.toml", environment={}, flags={})
    assert loaded.hints == ()
    assert loaded.settings.server.workers == 2
    # What is commented out is right too.
    text = (docs.ROOT / "deploy" / "lingua.toml").read_text("utf-8")
    whole = tmp_path / "lingua.toml"
    whole.write_text(re.sub(r"^# (?=\w+ = )", "", text, flags=re.MULTILINE))
    assert load(config_path=whole, environment={}, flags={}).settings.redis.url.startswith("redis://lingua:")


def test_commands_of_the_page_install_files_that_exist() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    named = {word for block in blocks for word in re.findall(r"\b(?:deploy|requirements)/[\w/@.-]+", block)}
    assert len(named) > 4
    assert [name for name in named if not (docs.ROOT / name).is_file()] == []
    installed = {name for name in named if name.endswith(".service")}
    assert installed == {f"deploy/systemd/{unit.name}" for unit in UNITS.glob("*.service")}


def test_the_program_is_installed_with_a_python_that_the_service_can_see() -> None:
    """`python3` of root may be in a home directory, as that of pyenv is; the units hide those."""
    assert "ProtectHome=true" in (UNITS / "lingua.service").read_text("utf-8")
    text = PAGE.read_text("utf-8")
    assert re.findall(r"^(\S*python3) -m venv", text, re.MULTILINE) == ["/usr/bin/python3"]
    assert "does not see home directories" in text


def test_folders_of_the_units_are_those_of_the_page() -> None:
    text = PAGE.read_text("utf-8")
    told = re.findall(r"`(/(?:etc|opt|var)/[\w/.-]+)`", text)
    assert {"/etc/lingua/lingua.toml", "/etc/lingua/node.env", "/var/lib/lingua", "/opt/lingua/.venv"} <= set(told)
    for unit in UNITS.glob("*.service"):
        used = re.findall(r"=(?:\w+=)?-?(/(?:etc|opt|var)/[\w/.-]+)", unit.read_text("utf-8"))
        assert used
        assert [path for path in used if not path.startswith(tuple(told))] == [], unit.name


@each_unit
def test_a_unit_runs_as_the_user_that_is_created(unit: Path) -> None:
    (user,) = re.findall(r"^u (\w+) ", (UNITS / "sysusers.conf").read_text("utf-8"), re.MULTILINE)
    assert (values(unit, "User"), values(unit, "Group")) == ([user], [user])


@each_unit
def test_folders_that_a_unit_writes_to_are_created_by_systemd(unit: Path) -> None:
    """The file system is read-only for it otherwise, and nothing in the page creates them."""
    (start,) = values(unit, "ExecStart")
    (name,) = values(unit, "StateDirectory")
    written = re.findall(r"/var/lib/[\w/.-]+", f"{start} {values(unit, 'Environment')}")
    assert written
    assert [path for path in written if Path(path) != Path("/var/lib", name) and Path(path).parent.name != name] == []
    assert values(unit, "ConfigurationDirectory") == ["lingua"]


@pytest.mark.parametrize("name", ["lingua.service", "lingua@.service"])
def test_a_reload_is_the_signal_that_replaces_workers(name: str) -> None:
    assert "`systemctl reload lingua` reads the settings again" in PAGE.read_text("utf-8")
    assert values(UNITS / name, "ExecReload") == ["/bin/kill -HUP $MAINPID"]


def test_the_page_says_what_to_back_up_and_how_to_upgrade() -> None:
    text = (docs.DOCS / "deploy.md").read_text("utf-8")
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert sections["Backups"].strip().startswith("There is nothing to back up, because ")
    steps = re.findall(r"^\d\. (.*)$", sections["Upgrades"], re.MULTILINE)
    assert "one at a time" in steps[0]
    assert "`lingua redis upgrade`" in steps[1]


def test_user_and_folders_are_created_by_systemds_own_tools(tmp_path: Path) -> None:
    programs = [shutil.which(name) for name in ("systemd-sysusers", "systemd-tmpfiles")]
    if None in programs or os.geteuid() != 0:
        pytest.skip("needs systemd-sysusers and systemd-tmpfiles (Debian: systemd), and root")
    for kind in ("sysusers", "tmpfiles"):
        folder = tmp_path / "usr" / "lib" / f"{kind}.d"
        folder.mkdir(parents=True)
        shutil.copy(UNITS / f"{kind}.conf", folder / "lingua.conf")
    (tmp_path / "etc" / "lingua").mkdir(parents=True)
    shutil.copy(docs.ROOT / "deploy" / "lingua.toml", tmp_path / "etc" / "lingua")
    for program, more in zip(programs, ((), ("--create",)), strict=True):
        command = [str(program), *more, f"--root={tmp_path}", "lingua.conf"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    (user,) = re.findall(r"^lingua:x:(\d+):(\d+):", (tmp_path / "etc" / "passwd").read_text("utf-8"), re.MULTILINE)
    made = {}
    for path in (tmp_path / "etc" / "lingua").rglob("*"):
        about = path.stat()
        made[path.name] = (about.st_mode & 0o777, about.st_uid, about.st_gid)
    # The settings may hold a password; the credentials are for root alone.
    assert made == {"lingua.toml": (0o640, 0, int(user[1])), "credentials": (0o700, 0, 0)}


@pytest.mark.parametrize("name", ["lingua.service", "lingua@.service"])
def test_the_password_of_redis_is_a_credential_that_need_not_be_there(name: str, tmp_path: Path) -> None:
    unit = UNITS / name
    (loaded,) = values(unit, "LoadCredential")
    credential, _, path = loaded.partition(":")
    assert path == f"/etc/lingua/credentials/{credential}"
    (default,) = values(unit, "SetCredential")
    assert default == f"{credential}:\\n"
    (variable,) = [one for one in values(unit, "Environment") if "%d" in one]
    assert variable == f"LINGUA_REDIS_PASSWORD_FILE=%d/{credential}"
    # What systemd writes then.
    (tmp_path / credential).write_text("\n")
    environment = {"LINGUA_REDIS_PASSWORD_FILE": str(tmp_path / credential), "LINGUA_REDIS_URL": "redis://db"}
    assert load(config_path=None, environment=environment, flags={}).settings.redis.url == "redis://db"
