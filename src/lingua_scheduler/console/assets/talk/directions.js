// Who talks to whom. A button tells which language is being spoken, so each direction is a one-way session of its
// own: nobody has to guess the language, and what one person says never waits for the other. (One two-way session
// would leave it to the node to recognise the language, and mix both speakers' chunks in one numbering.)

import { Link } from "./link.js";

const WORST_FIRST = ["refused", "away", "connecting", "paused", "open"];

export class Directions {
  #url;
  #on;
  #open = new Map();

  /** `on` hears: state(), outcome, partial, trouble(direction, message), lost(direction, count), settled(direction),
   * refused(direction, text). */
  constructor(url, on) {
    this.#url = url;
    this.#on = on;
  }

  get state() {
    const states = new Set([...this.#open.values()].map(({ state }) => state));
    return WORST_FIRST.find((word) => states.has(word)) ?? "idle";
  }

  get all() {
    return [...this.#open.values()];
  }

  /** Keep these pairs open, {source, target, side}, and no others. */
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

  find(source, target) {
    return this.#open.get(`${source}:${target}`);
  }

  #make({ source, target, side }) {
    const direction = { source, target, side, state: "connecting", link: null };
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
    });
    return direction;
  }
}
