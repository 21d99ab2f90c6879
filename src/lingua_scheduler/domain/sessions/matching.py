"""Matches the languages of terms to those that nodes serve."""

from collections.abc import Mapping

from lingua_scheduler.domain.pools.lookup import ServedTags, Serves, ordered
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_sdk.domain.languages import AUTO


def matched(terms: Terms, tags: ServedTags, serves: Serves) -> Terms | None:
    """The same terms in tags that nodes serve; None if no node serves them. An exact match wins."""
    if _is_served(terms, serves):
        return terms
    if terms.src_lang != AUTO:
        return _first_pair(terms, terms.src_lang, terms.tgt_lang, tags, serves)
    if terms.is_both_ways:
        return _first_pair(terms, terms.lang_a or "", terms.lang_b or "", tags, serves)
    return _several(terms, tags, serves)


def _first_pair(terms: Terms, one: str, other: str, tags: ServedTags, serves: Serves) -> Terms | None:
    others = tags.candidates(other) or [other]
    for found in ordered(tags.candidates(one), others):
        tried = renamed(terms, dict(zip((one, other), found, strict=True)))
        if _is_served(tried, serves):
            return tried
    return None


def _several(terms: Terms, tags: ServedTags, serves: Serves) -> Terms | None:
    """One target, and every language that may be spoken; each is looked up by itself."""
    sources = [language for language in terms.sources if language != terms.tgt_lang]
    for target in tags.candidates(terms.tgt_lang):
        names = {terms.tgt_lang: target}
        for source in sources:
            only = terms._replace(src_lang=source, tgt_lang=target)
            for candidate in tags.candidates(source):
                if _is_served(only._replace(src_lang=candidate), serves):
                    names[source] = candidate
                    break
        if len(names) == 1 + len(sources):
            return renamed(terms, names)
    return None


def renamed(terms: Terms, names: Mapping[str, str]) -> Terms:
    def name(tag: str | None) -> str | None:
        return None if tag is None else names.get(tag, tag)

    return terms._replace(
        src_lang=names.get(terms.src_lang, terms.src_lang),
        tgt_lang=names.get(terms.tgt_lang, terms.tgt_lang),
        lang_a=name(terms.lang_a),
        lang_b=name(terms.lang_b),
        auto_langs=None if terms.auto_langs is None else tuple(names.get(tag, tag) for tag in terms.auto_langs),
    )


def _is_served(terms: Terms, serves: Serves) -> bool:
    return all(map(serves, terms.pools()))
