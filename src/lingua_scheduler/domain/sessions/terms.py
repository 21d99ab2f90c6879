"""Terms: what a speaker requested, and the pools a node must be in to serve it."""

from functools import cache
from typing import NamedTuple

from lingua_scheduler.domain.nodes.nodes import SERVICES
from lingua_scheduler.domain.pools.names import Facet, Pool
from lingua_sdk.domain.languages import AUTO, MAX_TAG_CHARS, is_code
from lingua_sdk.domain.vocabulary import TWO_WAY_AUTO

# Every one of them is a pool that the node must be in.
MAX_AUTO_LANGS = 16


class PipelineTerms(NamedTuple):
    """One field for each of `SERVICES`, in their order."""

    use_asr: bool = True
    use_nmt: bool = True
    use_tts: bool = True
    # None: as the node does by itself. Existing nodes repair text only when they are asked to.
    use_semantic: bool | None = None
    use_tone: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """The kinds of service a node must not lack."""
        return _needs(self)


@cache
def _needs(pipeline: PipelineTerms) -> tuple[str, ...]:
    return tuple(service for service, is_used in zip(SERVICES, pipeline, strict=True) if is_used is not False)


class Terms(NamedTuple):
    """Languages and options of a session, or of one whole utterance that brings its own."""

    src_lang: str
    tgt_lang: str
    mode: str | None = None
    lang_a: str | None = None
    lang_b: str | None = None
    auto_langs: tuple[str, ...] | None = None
    dialect: str | None = None
    features: dict[str, bool] | None = None
    pipeline: PipelineTerms = PipelineTerms()
    enable_streaming_asr: bool = False
    partial_update_interval_ms: float = 1000

    def complaint(self) -> str | None:
        """One sentence about what cannot be served, or None."""
        both_ways = self.src_lang == AUTO and self.is_both_ways
        if not is_code(self.tgt_lang) and not (self.tgt_lang == AUTO and both_ways):
            return f"invalid tgt_lang: expected a language code such as en or zh, not {_quoted(self.tgt_lang)}"
        if len(self.auto_langs or ()) > MAX_AUTO_LANGS:
            return f"auto_langs may name at most {MAX_AUTO_LANGS} languages"
        if self.src_lang != AUTO:
            wrong = f"invalid src_lang: expected auto or a code such as en or zh, not {_quoted(self.src_lang)}"
            return None if is_code(self.src_lang) else wrong
        if not self.is_both_ways and not self.sources:
            return "src_lang auto requires lang_a and lang_b, or auto_langs"
        return None

    def pools(self) -> tuple[str, ...]:
        """Every pool the node must be in; it is looked for in the first."""
        facet = Facet.SPEECH if self.pipeline.use_tts else Facet.TEXT
        if self.src_lang != AUTO:
            target = self.tgt_lang if self.pipeline.use_nmt else self.src_lang
            return (str(Pool(self.src_lang, target, facet)),)
        if not self.pipeline.use_nmt:
            heard = (self.lang_a or "", self.lang_b or "") if self.is_both_ways else tuple(self.sources)
            return tuple(str(Pool(language, language, facet)) for language in heard)
        if self.is_both_ways:
            assert self.lang_a is not None
            assert self.lang_b is not None
            return (str(Pool(self.lang_a, self.lang_b, facet)), str(Pool(self.lang_b, self.lang_a, facet)))
        sources = self.sources
        others = [source for source in sources if source != self.tgt_lang]
        return tuple(str(Pool(source, self.tgt_lang, facet)) for source in others or sources)

    @property
    def languages(self) -> str:
        """In a word: src:tgt, auto:a+b when both ways are open, auto:tgt when any of several may be heard."""
        if self.src_lang == AUTO and self.is_both_ways:
            return f"{AUTO}:{self.lang_a}+{self.lang_b}"
        return f"{self.src_lang}:{self.tgt_lang}"

    @property
    def is_both_ways(self) -> bool:
        """Either of two languages may be spoken, and is translated into the other."""
        return (
            self.mode == TWO_WAY_AUTO
            and self.lang_a is not None
            and self.lang_b is not None
            and is_code(self.lang_a)
            and is_code(self.lang_b)
        )

    @property
    def sources(self) -> list[str]:
        """The languages that may be spoken, where that is not known."""
        named = self.auto_langs or tuple(lang for lang in (self.lang_a, self.lang_b) if lang)
        return [lang for lang in dict.fromkeys(named) if is_code(lang)]


def _quoted(text: str) -> str:
    """What a stranger wrote, at most as long as a tag."""
    return repr(text if len(text) <= MAX_TAG_CHARS else f"{text[:MAX_TAG_CHARS]}…")
