"""Asks the search of the built site what people ask, in Chromium: the answer must be among the first results."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, sync_playwright

# How many results a reader looks at.
_LOOKED_AT = 3
_PATIENCE_MS = 30_000
# What the theme says, in every language.
_NONE = "No results"
# A result says in its address what was searched for, to mark it in the page.
_RESULT = "a[href*='?h=']"
_INPUT = "input[aria-autocomplete=list]"
# By language: what is asked, and the pages of which one must be among the first results.
ASKED: dict[str, dict[str, tuple[str, ...]]] = {
    "en": {
        "how do I let a phone app in without a key in its code": ("questions/", "access/"),
        "a node is quarantined, why": ("runbook/#a-node-is-quarantined", "questions/"),
        "what does missing_result gap_timeout mean": ("sessions/#what-comes-back", "questions/"),
        "run two instances behind nginx": ("deploy/#two-or-more-instances", "questions/"),
        "which close code means banned": ("errors/#close-codes", "questions/"),
        "token expired while connected": ("access/#expiry-rotation-revocation", "questions/"),
        "translate a wav file over http": ("http-dispatch/#a-file-in-one-request",),
        "node join string": ("joining/#one-string",),
        "safari microphone": ("talk/#when-something-does-not-work",),
        "node without python": ("questions/", "write-a-node/"),
        "translation never arrives": ("questions/",),
        "how many seconds of silence end a sentence": ("questions/",),
        "stop people from using my scheduler": ("questions/",),
        "delete a key": ("questions/",),
        "update to a new version": ("questions/", "upgrading/"),
        "behind a proxy with tls": ("questions/", "deploy/"),
        "subtitles in obs": ("questions/", "examples/", "files/examples/pages/"),
        "load test": ("commands/#lingua-load", "questions/"),
    },
    "zh": {
        "第一个密钥": ("first-deployment/",),
        "隔离": ("first-node/",),
    },
}


_TRIES = 5


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def missing(site: Path, version: str) -> list[str]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("There is no Chromium on this machine: the search of the site was not asked.")
        return []
    faults = []
    with _served(site) as port, sync_playwright() as playwright:
        # Nothing but this machine can be reached: the site must work without the internet.
        flags = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]
        with playwright.chromium.launch(executable_path=chromium, args=flags) as browser:
            page = browser.new_page()
            page.set_default_timeout(_PATIENCE_MS)
            for language, questions in ASKED.items():
                base = f"http://127.0.0.1:{port}/{language}/{version}/"
                page.goto(base)
                page.locator("[data-md-component=search] button").click()
                for question, wanted in questions.items():
                    # "Nothing" is also what is shown while the index is being searched.
                    found = next(filter(None, (_asked(page, base, question) for _ in range(_TRIES))), [])
                    if not any(result.startswith(wanted) for result in found):
                        faults.append(f"search: {question!r} finds {found or 'nothing'}, not {' or '.join(wanted)}")
    return faults


@contextmanager
def _served(site: Path) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def _asked(page: Page, base: str, question: str) -> list[str]:
    """The first results, as addresses below the site."""
    # Results of the question before would be taken for those of this one.
    page.locator(_INPUT).fill("")
    page.locator(_RESULT).first.wait_for(state="detached")
    page.locator(_INPUT).fill(question)
    page.locator(_RESULT).or_(page.get_by_text(_NONE, exact=True)).first.wait_for()
    links = page.locator(_RESULT).evaluate_all("all => all.map((one) => one.href)")
    results = []
    for link in links[:_LOOKED_AT]:
        parts = urlsplit(link)
        results.append(f"{parts.path.removeprefix(urlsplit(base).path)}{'#' if parts.fragment else ''}{parts.fragment}")
    return results
