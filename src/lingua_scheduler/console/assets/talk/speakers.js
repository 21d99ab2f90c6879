// The two people: which language each of them speaks, and which one each of them reads.
import { spoken } from "../shared/i18n.js";
import { reader } from "./words.js";

/** @import {Language} from "../shared/i18n.js" */
/** @import {Side} from "./page.js" */
/** @import {Reader} from "./words.js" */

/** @typedef {{languages: string[], of(source: string, target: string): "speech" | "text" | "none"}} Offered */
/** @typedef {{a: string, b: string, interface: string, layout: string}} Chosen */

// The targets of the demo, with simulated nodes and with real ones: of equal pairs these are shown first.
const PARTNERS = ["zh", "pt"];

export class Speakers {
  #choices;
  /** @type {Record<Side, string>} */
  languages = { a: "", b: "" };

  /** @param {Chosen} choices what the person has chosen, now and later */
  constructor(choices) {
    this.#choices = choices;
  }

  get isFace() {
    return this.#choices.layout === "face";
  }

  /** @returns {Language} */
  get interface() {
    return spoken(this.#choices.interface, "en");
  }

  /** Whether both languages are known and differ. */
  get areReady() {
    const { a, b } = this.languages;
    return Boolean(a) && Boolean(b) && a !== b;
  }

  /**
   * Face to face, each half speaks the language of its person.
   * @param {Side} side
   * @returns {Reader}
   */
  reads(side) {
    return this.isFace ? reader(this.languages[side], this.interface) : this.interface;
  }

  /**
   * What this side says, and what the other hears.
   * @param {Side} side
   */
  pair(side) {
    const { a, b } = this.languages;
    return side === "a" ? { source: a, target: b } : { source: b, target: a };
  }

  /**
   * What was chosen before; at first sight a pair that is served.
   * @param {Offered} offers
   */
  settle(offers) {
    const { languages } = this;
    languages.a ||= this.#choices.a;
    languages.b ||= this.#choices.b;
    if (languages.a && languages.b) return;
    let most = -1;
    for (const pair of candidates(languages, offers)) {
      const value = worth(pair, offers, this.interface);
      if (value <= most) continue;
      most = value;
      this.languages = pair;
    }
  }

  /**
   * @param {Side} side
   * @param {string} code
   */
  choose(side, code) {
    const former = this.languages[side];
    const across = side === "a" ? "b" : "a";
    this.languages[side] = code;
    // Who chooses the other's language means to swap.
    if (this.languages[across] === code) this.languages[across] = former;
  }

  swap() {
    const { a, b } = this.languages;
    this.languages = { a: b, b: a };
  }
}

/**
 * All pairs of served languages that keep what is chosen already.
 * @param {Record<Side, string>} chosen
 * @param {Offered} offers
 */
function candidates(chosen, offers) {
  const of = (/** @type {string} */ code) => (code ? [code] : offers.languages);
  return of(chosen.a).flatMap((a) =>
    of(chosen.b)
      .filter((b) => b !== a)
      .map((b) => ({ a, b })),
  );
}

/**
 * How good a pair is to begin with: served, in the page's own language, in both directions, with a common partner.
 * @param {Record<Side, string>} pair
 * @param {Offered} offers
 * @param {Language} own
 */
function worth({ a, b }, offers, own) {
  const served = { speech: 32, text: 16, none: 0 };
  const partners = a === "zh" ? ["en"] : PARTNERS;
  const partner = partners.includes(b) ? partners.length - partners.indexOf(b) : 0;
  return served[offers.of(a, b)] + (a === own ? 8 : 0) + (offers.of(b, a) === "speech" ? 4 : 0) + partner;
}
