"""Addresses of identity providers, which operators configure: secrets are sent there."""

from urllib.parse import urlsplit

from lingua_scheduler.domain.guards.origins import is_loopback


def is_safe_url(text: str) -> bool:
    """Encrypted, or on this computer, and without parts that an address of this kind does not have."""
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:
        return False
    if not host or url.username is not None or url.query or url.fragment or not text.isprintable() or " " in text:
        return False
    return url.scheme == "https" or (url.scheme == "http" and is_loopback(host))
