// Who talks to whom. A button tells which language is being spoken, so each direction is a one-way session of its
// own: the language need not be identified, and what one person says never waits for the other. (One two-way session
// would leave it to the node to recognise the language, and mix both speakers' chunks in one numbering.)
import { finish, openSession, whyRefused } from "../shared/sessions.js";

/** @import {Partial as PartialText, Progress, Result, Session} from "../shared/client.js" */
/** @import {Shows} from "../shared/pass.js" */
/** @import {LinkState} from "../shared/sessions.js" */
/** @import {Side} from "./page.js" */

/** @typedef {{source: string, target: string, side: Side}} Pair */
/** @typedef {Pair & {state: LinkState, session: Session}} Direction */
/**
 * @typedef {object} DirectionEvents
 * @property {() => void} state
 * @property {(direction: Direction, result: Result) => void} outcome
 * @property {(direction: Direction, partial: PartialText) => void} partial
 * @property {(direction: Direction, step: Progress) => void} trouble
 * @property {(direction: Direction, count: number) => void} lost
 * @property {(direction: Direction) => void} settled
 * @property {(direction: Direction, text: string) => void} refused
 */

const CLIENT = "lingua-talk-1";
/** @type {readonly Direction["state"][]} */
const WORST_FIRST = ["refused", "away", "connecting", "paused", "open"];

export class Directions {
  #url;
  #on;
  #pass;
  /** @type {Map<string, Direction>} */
  #open = new Map();

  /**
   * @param {URL} url
   * @param {DirectionEvents} on
   * @param {Shows} [pass] for each session
   */
  constructor(url, on, pass) {
    this.#url = url;
    this.#pass = pass;
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
   * Keep these pairs open, and no others. One that was refused is tried again.
   * @param {Pair[]} pairs
   */
  want(pairs) {
    const wanted = new Map(pairs.map((pair) => [`${pair.source}:${pair.target}`, pair]));
    for (const [key, direction] of this.#open) {
      if (wanted.has(key) && direction.state !== "refused") continue;
      this.#open.delete(key);
      finish(direction.session);
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
    const session = openSession(this.#url, { source, target, client: CLIENT }, this.#pass);
    /** @type {Direction} */
    const direction = { source, target, side, session, state: "connecting" };
    session.on("state", (state) => {
      if (state === "ended") return;
      direction.state = state;
      this.#on.state();
    });
    session.on("result", (result) => this.#on.outcome(direction, result));
    session.on("partial", (partial) => this.#on.partial(direction, partial));
    session.on("progress", (step) => step.isError && this.#on.trouble(direction, step));
    session.on("restarted", ({ lost }) => this.#on.lost(direction, lost));
    session.on("settled", () => this.#on.settled(direction));
    session.on("ended", (error) => {
      // What is not wanted any more is not told.
      if (!error || this.find(source, target) !== direction) return;
      direction.state = "refused";
      this.#on.refused(direction, whyRefused(error, this.#pass));
      this.#on.state();
    });
    return direction;
  }
}
