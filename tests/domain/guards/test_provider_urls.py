import pytest

from lingua_scheduler.domain.guards.provider_urls import is_safe_url


@pytest.mark.parametrize(
    "url",
    [
        "https://id.example",
        "https://id.example:8443/realms/a",
        "http://localhost:9400",
        "http://[::1]:1/",
        "https://10.0.0.5",
    ],
)
def test_encrypted_or_on_this_computer(url: str) -> None:
    assert is_safe_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "id.example",
        "http://id.example",
        "http://10.0.0.5",
        "https://",
        "https://user:secret@id.example",
        "https://id.example?a=1",
        "https://id.example#a",
        "https://id.example/a b",
        "https://id.example/\n",
        "https://id.example:99999",
        "https://[::1",
        "javascript:alert(1)",
        "file:///etc/passwd",
    ],
)
def test_anything_else_is_not(url: str) -> None:
    assert not is_safe_url(url)
