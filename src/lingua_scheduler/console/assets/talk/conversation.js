// What was said, in order, and how each half of the page shows it. Everything from outside is text, never markup.

// Older sentences leave the page, and older speech leaves the memory.
const MAX_SHOWN = 200;
const MAX_CLIPS = 30;
const FORGET_AFTER_MS = 90_000;

/** States of a sentence: listening → pending → partial → done, or missing with a `reason`. */
export class Conversation {
  #sentences = [];
  #onChange;
  #count = 0;

  constructor(onChange) {
    this.#onChange = onChange;
    setInterval(() => this.#giveUp(), 5_000);
  }

  get all() {
    return this.#sentences;
  }

  /** `direction` is who talks to whom: {source, target, …}. */
  begin(direction, side) {
    const { source, target } = direction;
    const sentence = { id: ++this.#count, direction, side, source, target, index: null, state: "listening" };
    Object.assign(sentence, { heard: "", translated: "", reason: "", clip: null, isPlaying: false, at: Date.now() });
    this.#sentences.push(sentence);
    if (this.#sentences.length > MAX_SHOWN) this.#sentences.shift();
    this.#onChange(sentence);
    return sentence;
  }

  change(sentence, changes) {
    Object.assign(sentence, changes, { at: Date.now() });
    if (changes.clip) this.#dropOldClips();
    this.#onChange(sentence);
  }

  remove(sentence) {
    this.#sentences = this.#sentences.filter((one) => one !== sentence);
    this.#onChange(sentence);
  }

  clear() {
    this.#sentences = this.#sentences.filter(({ state }) => state === "listening");
    this.#onChange(null);
  }

  /** The sentence with this number of a direction: the oldest without a number takes it. */
  numbered(direction, index) {
    const ours = this.#sentences.filter((one) => one.direction === direction);
    const waiting = ours.find((one) => one.index === null && isWaiting(one));
    const found = ours.find((one) => one.index === index) ?? waiting ?? this.begin(direction, direction.side);
    found.index = index;
    return found;
  }

  /** Its session is gone: numbers begin anew, and the oldest `lost` of those that wait will not be answered. */
  restart(direction, lost) {
    const ours = this.#sentences.filter((one) => one.direction === direction);
    const waiting = ours.filter(isWaiting);
    ours.forEach((one) => (one.index = waiting.includes(one) ? null : -1));
    waiting.slice(0, lost).forEach((one) => this.change(one, { state: "missing", reason: "lost" }));
  }

  /** Whatever was said has its outcome. What waits nevertheless became a part of a sentence before it. */
  settle(direction) {
    const isJoined = (one) => one.direction === direction && (one.state === "pending" || one.state === "partial");
    this.#sentences.filter(isJoined).forEach((one) => this.remove(one));
  }

  #giveUp() {
    const since = Date.now() - FORGET_AFTER_MS;
    this.#sentences
      .filter((one) => one.at < since && (one.state === "pending" || one.state === "partial"))
      .forEach((one) => this.change(one, { state: "missing", reason: "missing_late" }));
  }

  #dropOldClips() {
    const withClip = this.#sentences.filter(({ clip }) => clip);
    withClip.slice(0, -MAX_CLIPS).forEach((one) => (one.clip = null));
  }
}

function isWaiting({ state }) {
  return state === "listening" || state === "pending" || state === "partial";
}
