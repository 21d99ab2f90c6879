// Who talks to whom. A button tells which language is being spoken, so each direction is a one-way session of its
// own: the language need not be identified, and what one person says never waits for the other. (One two-way session
// would leave it to the node to recognise the language, and mix both speakers' chunks in one numbering.)

import { Link } from "./link.js";

/** @import {AsrPartial, Outcome, UiEvent} from "../shared/types" */
/** @import {LinkState} from "./link.js" */
/** @import {Side} from "./page.js" */

/** @typedef {{source: string, target: string, side: Side}} Pair */
/** @typedef {Pair & {state: LinkState | "refused", link: Link}} Direction */
/**
 * @typedef {object} DirectionEvents
 * @property {() => void} state
 * @property {(direction: Direction, message: Outcome) => void} outcome
 * @property {(direction: Direction, message: AsrPartial) => void} partial
 * @property {(direction: Direction, message: UiEvent) => void} trouble
 * @property {(direction: Direction, count: number) => void} lost
 * @property {(direction: Direction) => void} settled
 * @property {(direction: Direction, text: string) => void} refused
 */

/** @type {readonly Direction["state"][]} */
const WORST_FIRST = ["refused", "away", "connecting", "paused", "open"];

export class Directions {
  #url;
  #on;
  #protocols;
  /** @type {Map<string, Direction>} */
  #open = new Map();

  /**
   * @param {URL} url
   * @param {DirectionEvents} on
   * @param {() => Promise<string[]>} [protocols] of each socket
   */
  constructor(url, on, protocols) {
    this.#url = url;
    this.#protocols = protocols;
    this.#on = on;
  }

  get state() {
    const states = new Set([...this.#open.values()].map(({ state }) => state));
    return WORST_FIRST.find((word) => states.has(word)) ?? "idle";
  }

  get all() {
    return [...this.#open.values()];
  }

  /**
   * Keep these pairs open, and no others.
   * @param {Pair[]} pairs
   */
  want(pairs) {
    const wanted = new Map(pairs.map((pair) => [`${pair.source}:${pair.target}`, pair]));
    for (const [key, direction] of this.#open) {
      if (wanted.has(key)) continue;
      this.#open.delete(key);
      direction.link.close();
    }
    for (const [key, pair] of wanted) {
      const known = this.#open.get(key);
      if (known) known.side = pair.side;
      else this.#open.set(key, this.#make(pair));
    }
    this.#on.state();
  }

  /**
   * @param {string} source
   * @param {string} target
   */
  find(source, target) {
    return this.#open.get(`${source}:${target}`);
  }

  /**
   * @param {Pair} pair
   * @returns {Direction}
   */
  #make({ source, target, side }) {
    const direction = /** @type {Direction} */ ({ source, target, side, state: "connecting" });
    direction.link = new Link(this.#url, source, target, {
      state: (word) => {
        direction.state = word;
        this.#on.state();
      },
      outcome: (message) => this.#on.outcome(direction, message),
      partial: (message) => this.#on.partial(direction, message),
      trouble: (message) => this.#on.trouble(direction, message),
      lost: (count) => this.#on.lost(direction, count),
      settled: () => this.#on.settled(direction),
      refused: (text) => {
        direction.state = "refused";
        this.#on.refused(direction, text);
      },
    }, this.#protocols);
    return direction;
  }
}
