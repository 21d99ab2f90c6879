from lingua_scheduler.domain.rooms.relays import is_relay_url, relay_credential


def test_a_credential_is_what_coturn_computes() -> None:
    # printf 1000300:s-1 | openssl dgst -sha1 -hmac secret -binary | base64
    assert relay_credential(b"secret", "s-1", 1_000_000.4, 300) == ("1000300:s-1", "cwKP7JHQ/SWGAWR7qMvX40sSGGg=")


def test_servers_are_told_from_other_addresses() -> None:
    assert all(map(is_relay_url, ("stun:a", "turn:turn.example:3478", "turns:b?transport=tcp")))
    assert not any(map(is_relay_url, ("https://turn.example", "turn:", "turn://a", "a", "")))
