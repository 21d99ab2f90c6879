"""The TLS files of the listener: clear refusals at the start, and changes while it runs."""

import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from lingua_scheduler.gateway.tls_files import TlsFiles, TlsFilesError
from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.telemetry import metrics
from tests.support.certificates import HOUR, Authority, CertFiles, put


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def files_of(files: CertFiles, clock: Callable[[], float] = time.time, **more: Any) -> TlsFiles:
    cert, key = map(str, files)
    return TlsFiles(ServerSettings(tls_cert_file=cert, tls_key_file=key, **more), clock)


def served(tls: TlsFiles) -> tuple[int, int]:
    """What a client of the context would be offered: its oldest version, and whether it asks for a certificate."""
    return tls.context().minimum_version, tls.context().verify_mode


def test_tls_1_2_is_the_oldest_and_clients_need_no_certificate(authority: Authority) -> None:
    files = authority.serve()
    tls = files_of(files)
    tls.load()
    assert served(tls) == (ssl.TLSVersion.TLSv1_2, ssl.CERT_NONE)
    tls = files_of(files, tls_client_ca_file=str(authority.file))
    tls.load()
    assert served(tls) == (ssl.TLSVersion.TLSv1_2, ssl.CERT_OPTIONAL)


def _encrypted(pem: bytes) -> bytes:
    key = load_pem_private_key(pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


def test_what_is_wrong_is_told_with_the_setting_and_what_to_do(authority: Authority) -> None:
    now = datetime.now(UTC)
    good, other = authority.serve(), authority.serve(name="other")
    open_key = put(authority.folder / "open.key", good.key.read_bytes())
    open_key.chmod(0o644)
    rubbish = put(authority.folder / "rubbish", b"-----BEGIN NOTHING-----")
    none = authority.folder / "none"
    encrypted = put(authority.folder / "encrypted.key", _encrypted(good.key.read_bytes()))
    ended = authority.serve(name="ended", since=now - 2 * HOUR, until=now - HOUR)
    early = authority.serve(name="early", since=now + HOUR, until=now + 2 * HOUR)
    expected = {
        good._replace(cert=none): r"none \(server.tls_cert_file\) cannot be used: No such file",
        good._replace(key=none): r"none \(server.tls_key_file\) cannot be used: No such file",
        good._replace(cert=rubbish): r"rubbish \(server.tls_cert_file\) .*: it has no certificate in PEM form",
        good._replace(key=rubbish): r"rubbish \(server.tls_key_file\) .*: it has no key that can be used",
        good._replace(key=other.key): r"other.key \(server.tls_key_file\) .*: the key does not belong to the cert",
        good._replace(key=open_key): r"open.key .*: other users can read or write it; run chmod o= ",
        good._replace(key=encrypted): r"encrypted.key .*: the key has a passphrase; write it without",
        good._replace(cert=authority.folder): r"\(server.tls_cert_file\) cannot be used: Is a directory",
        ended: r"ended.crt \(server.tls_cert_file\) .*: the certificate expired \d{4}-.* UTC; renew it",
        early: r"early.crt .*: the certificate is not valid before .* UTC; check the clock",
    }
    for files, why in expected.items():
        with pytest.raises(TlsFilesError, match=why) as refused:
            files_of(files).load()
        assert "PRIVATE" not in str(refused.value)
    for path, why in ((none, "No such file"), (rubbish, "it has no certificate in PEM form")):
        with pytest.raises(TlsFilesError, match=rf"\(server.tls_client_ca_file\) cannot be used: {why}"):
            files_of(good, tls_client_ca_file=str(path)).load()


def test_a_group_may_read_the_key(authority: Authority) -> None:
    files = authority.serve()
    files.key.chmod(0o640)
    files_of(files).load()


async def test_a_changed_pair_is_used_for_the_next_connection_and_an_unchanged_one_is_left_alone(
    authority: Authority,
) -> None:
    tls = files_of(authority.serve())
    tls.load()
    first, expires_s = tls.context(), metrics.TLS_EXPIRES._value.get()
    await tls.look()
    assert tls.context() is first
    authority.serve(until=datetime.now(UTC) + timedelta(days=30))
    await tls.look()
    assert tls.context() is not first
    assert metrics.TLS_EXPIRES._value.get() < expires_s
    assert abs(metrics.TLS_EXPIRES._value.get() - time.time() - 30 * 86_400) < 3_600


@pytest.mark.expects_surprise("tls.unusable")
async def test_a_pair_that_cannot_be_used_leaves_the_one_before_and_is_told_once(authority: Authority) -> None:
    failed = metrics.TLS_RELOADS.labels("failed")._value
    files, before = authority.serve(), failed.get()
    key = files.key.read_bytes()
    tls = files_of(files)
    tls.load()
    first = tls.context()
    put(files.key, authority.serve(name="other").key.read_bytes())
    await tls.look()
    assert (tls.failure, failed.get()) == ("", before), "its certificate may come in a moment"
    for _ in range(3):
        await tls.look()
        assert "does not belong" in tls.failure
        assert (tls.context(), failed.get()) == (first, before + 1)
    # Another fault is another word, and what is as it was before is no fault.
    files.key.unlink()
    await tls.look()
    await tls.look()
    assert "No such file" in tls.failure
    put(files.key, key)
    await tls.look()
    assert tls.failure == ""
    assert failed.get() == before + 2


@pytest.mark.expects_surprise("tls.unusable")
async def test_an_operator_who_asks_is_answered_at_once(authority: Authority) -> None:
    files = authority.serve()
    tls = files_of(files)
    tls.load()
    first = tls.context()
    await tls.look(is_asked=True)
    assert tls.context() is not first
    files.cert.write_bytes(b"rubbish")
    await tls.look(is_asked=True)
    assert "no certificate" in tls.failure


async def test_files_that_are_replaced_one_after_the_other_are_no_fault(authority: Authority) -> None:
    files = authority.serve()
    tls = files_of(files)
    tls.load()
    first, new = tls.context(), authority.serve(name="new")
    new.cert.replace(files.cert)
    await tls.look()
    assert (tls.failure, tls.context()) == ("", first)
    new.key.replace(files.key)
    await tls.look()
    assert tls.failure == ""
    assert tls.context() is not first


def test_the_end_is_soon_in_the_last_third_of_a_short_life_and_two_weeks_before_that_of_a_long_one(
    authority: Authority,
) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    for days, soon_days in ((3, 1), (90, 14), (365, 14)):
        until = now + timedelta(days=days)
        files = authority.serve(name=f"{days}", since=now - timedelta(seconds=1), until=until)
        at = [now.timestamp()]
        tls = files_of(files, lambda at=at: at[0])  # type: ignore[misc]
        assert tls.ends_soon_ms == 0
        tls.load()
        at[0] = until.timestamp() - soon_days * 86_400 - 60
        assert tls.ends_soon_ms == 0
        at[0] += 120
        assert tls.ends_soon_ms == until.timestamp() * 1000
