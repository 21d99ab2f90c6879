// Which pairs of languages the scheduler's nodes serve at this moment.

/** @import {PoolList, WidePool} from "./types" */
/** @import {Pass} from "./pass.js" */
/** @typedef {{speech?: number, text?: number}} Nodes */

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

  /**
   * The person has opened another link.
   * @param {string} token
   */
  askWith(token) {
    if (!this.pass.replace(token)) return;
    this.isKnown = false;
    this.ask();
  }

  async ask() {
    const before = this.#state;
    try {
      if (!this.isKnown) await this.pass.learn();
      if (this.pass.isDenied) return this.#deny(before);
      const { headers } = this.pass;
      const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
      const answer = await fetch(this.url, { cache: "no-store", headers, signal });
      // The login or the token has ended: say so at once, not that the scheduler does not answer.
      if (answer.status === DENIED) {
        this.isKnown = false;
        await this.pass.learn();
        if (this.pass.isDenied) return this.#deny(before);
      }
      if (!answer.ok) throw new Error(String(answer.status));
      /** @type {PoolList} */
      const pools = await answer.json();
      const { pairs, wide } = usable(pools);
      this.#pairs = pairs;
      this.#wide = wide.filter(({ nodes }) => nodes > 0);
      this.isKnown = this.isReachable = true;
      this.isDenied = false;
    } catch {
      this.isReachable = false;
    }
    if (this.#state !== before) this.onChange();
  }

  /** @param {string} before */
  #deny(before) {
    this.isReachable = this.isDenied = true;
    this.isKnown = false;
    if (this.#state !== before) this.onChange();
  }

  get #state() {
    return JSON.stringify([this.isKnown, this.isReachable, this.pass.denial, this.#pairs, this.#wide]);
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

/**
 * The pools that serve the caller: public ones, and the private ones of its tenant.
 * @param {PoolList} pools
 */
export function usable({ pairs = {}, wide = [], private: byTenant = {}, tenant = "" }) {
  const own = byTenant[tenant] ?? {};
  const all = { ...pairs };
  for (const [pair, nodes] of Object.entries(own.pairs ?? {})) all[pair] = together(nodes, all[pair] ?? {});
  return { pairs: all, wide: [...wide, ...(own.wide ?? [])] };
}

/**
 * @param {Nodes} some
 * @param {Nodes} others
 */
function together({ speech = 0, text = 0 }, others) {
  return { speech: speech + (others.speech ?? 0), text: text + (others.text ?? 0) };
}
