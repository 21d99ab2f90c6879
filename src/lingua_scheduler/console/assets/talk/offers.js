// Which pairs of languages the scheduler's nodes serve at this moment.

const ASK_EVERY_MS = 5_000;
const ANSWER_WITHIN_MS = 5_000;

export class Offers {
  #pairs = {};
  isKnown = false;
  isReachable = true;

  /** `onChange` is called when an answer differs from the one before. */
  constructor(url, onChange) {
    this.url = url;
    this.onChange = onChange;
    setInterval(() => document.hidden || this.ask(), ASK_EVERY_MS);
  }

  async ask() {
    const before = JSON.stringify([this.isKnown, this.isReachable, this.#pairs]);
    try {
      const answer = await fetch(this.url, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
      if (!answer.ok) throw new Error(String(answer.status));
      this.#pairs = (await answer.json()).pairs ?? {};
      this.isKnown = this.isReachable = true;
    } catch {
      this.isReachable = false;
    }
    if (JSON.stringify([this.isKnown, this.isReachable, this.#pairs]) !== before) this.onChange();
  }

  get languages() {
    const codes = Object.keys(this.#pairs).flatMap((pair) => pair.split(":"));
    return [...new Set(codes)];
  }

  /** speech, text (nobody says it aloud), or none. */
  of(source, target) {
    const { speech = 0, text = 0 } = this.#pairs[`${source}:${target}`] ?? {};
    if (speech > 0) return "speech";
    return text > 0 ? "text" : "none";
  }
}
