"""Names of languages."""

import pytest

from lingua_scheduler.domain.pools.language_names import language_name


@pytest.mark.parametrize(
    ("code", "name"), [("ko", "Korean"), ("pt-BR", "Portuguese (BR)"), ("nn", "Norwegian Nynorsk"), ("tlh", "tlh")]
)
def test_a_language_has_its_english_name_or_its_code(code: str, name: str) -> None:
    assert language_name(code) == name
