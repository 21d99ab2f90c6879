// Which pairs of languages the scheduler's nodes serve at this moment.

/** @import {PoolList, WidePool} from "../shared/types" */
/** @import {Pass} from "./pass.js" */

const ASK_EVERY_MS = 5_000;
const ANSWER_WITHIN_MS = 5_000;
const DENIED = 401;

export class Offers {
  /** @type {NonNullable<PoolList["pairs"]>} */
  #pairs = {};
  // Nodes that serve too many pairs to name each: by their languages.
  /** @type {WidePool[]} */
  #wide = [];
  isKnown = false;
  isReachable = true;
  /** Whether the scheduler wants to know who asks, and this page cannot tell. */
  isDenied = false;

  /**
   * @param {URL} url
   * @param {() => void} onChange called when an answer differs from the one before
   * @param {Pass} pass
   */
  constructor(url, onChange, pass) {
    this.url = url;
    this.pass = pass;
    this.onChange = onChange;
    setInterval(() => document.hidden || this.ask(), ASK_EVERY_MS);
  }

  async ask() {
    const before = this.#state;
    try {
      if (!this.isKnown) await this.pass.learn();
      if (this.pass.isDenied) {
        this.isReachable = this.isDenied = true;
        this.isKnown = false;
        if (this.#state !== before) this.onChange();
        return;
      }
      const answer = await fetch(this.url, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
      // The login has ended.
      if (answer.status === DENIED) this.isKnown = false;
      if (!answer.ok) throw new Error(String(answer.status));
      /** @type {PoolList} */
      const { pairs = {}, wide = [] } = await answer.json();
      this.#pairs = pairs;
      this.#wide = wide.filter(({ nodes }) => nodes > 0);
      this.isKnown = this.isReachable = true;
      this.isDenied = false;
    } catch {
      this.isReachable = false;
    }
    if (this.#state !== before) this.onChange();
  }

  get #state() {
    return JSON.stringify([this.isKnown, this.isReachable, this.isDenied, this.#pairs, this.#wide]);
  }

  get languages() {
    const codes = Object.keys(this.#pairs).flatMap((pair) => pair.split(":"));
    return [...new Set([...codes, ...this.#wide.flatMap(({ sources, text }) => [...sources, ...text])])];
  }

  /**
   * speech, text (without speech), or none.
   * @param {string} source
   * @param {string} target
   */
  of(source, target) {
    const { speech = 0, text = 0 } = this.#pairs[`${source}:${target}`] ?? {};
    const able = this.#wide.filter(
      ({ sources, translations }) =>
        sources.includes(source) &&
        (source === target || translations === null || (translations[source] ?? []).includes(target)),
    );
    if (speech > 0 || able.some((wide) => wide.speech.includes(target))) return "speech";
    return text > 0 || able.some((wide) => wide.text.includes(target)) ? "text" : "none";
  }
}
