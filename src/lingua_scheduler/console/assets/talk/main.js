// Wires the talk page together: what is said, the sessions that carry it, and the two halves that show it.
import { holdOrTap, keyboard } from "../shared/button.js";
import { find, root } from "../shared/elements.js";
import { preferred } from "../shared/i18n.js";
import { Offers } from "../shared/offers.js";
import { Pass } from "../shared/pass.js";
import { httpUrl, socketUrl } from "../shared/places.js";
import { Sound } from "../shared/sound.js";
import { keepAwake } from "../shared/wake.js";
import { Bar } from "./bar.js";
import { choices, choose } from "./choices.js";
import { Conversation } from "./conversation.js";
import { Directions } from "./directions.js";
import { Half } from "./half.js";
import { loudnessMeter } from "./loudness.js";
import { SIDES } from "./page.js";
import { Results } from "./results.js";
import { Speakers } from "./speakers.js";
import { Stream } from "./stream.js";
import { Talker } from "./talker.js";

/** @import {Choices} from "./choices.js" */
/** @import {Sentence} from "./conversation.js" */

const NARROW_PX = 700;

choose({
  interface: preferred(choices.interface, [navigator.language]),
  layout: choices.layout || (window.innerWidth < NARROW_PX ? "face" : "solo"),
});

const speakers = new Speakers(choices);
const pass = new Pass(httpUrl("v1/"));
const offers = new Offers(
  httpUrl("v1/pools"),
  () => {
    speakers.settle(offers);
    connect();
    showAll();
  },
  pass,
);
const halves = {
  a: new Half("a", speakers, offers),
  b: new Half("b", speakers, offers),
};
const both = SIDES.map((side) => halves[side]);

const conversation = new Conversation((changed) => showSentences(changed));
const streams = both.map(
  (half) => new Stream(half.list, half.side, (key) => half.word(key), (id) => results.replay(id)),
);
const sound = new Sound(choices.isMuted ? 0 : 1, () => halves.a.tell("no_sound"), loudnessMeter);
const results = new Results(conversation, sound, find(HTMLElement, "#spoken"));

const directions = new Directions(socketUrl(), {
  state: showState,
  outcome: (direction, result) => results.outcome(direction, result),
  partial: (direction, partial) => results.partial(direction, partial),
  trouble: (direction, step) => results.trouble(direction, step),
  lost: (direction, count) => conversation.restart(direction, count),
  settled: (direction) => conversation.settle(direction),
  refused: (direction, reason) => halves[direction.side].tell("refused", { reason }),
}, pass);

const talker = new Talker(sound, conversation, {
  phase: (side, phase) => {
    halves[side].become(phase);
    keepAwake(phase !== "idle");
  },
  level: (side, level) => halves[side].hear(level),
  notice: (side, key) => halves[side].tell(key),
});

const bar = new Bar(speakers, {
  change,
  swap: () => {
    talker.stop();
    speakers.swap();
    change({ ...speakers.languages });
  },
  layout: () => {
    talker.stop();
    change({ layout: speakers.isFace ? "solo" : "face" });
  },
  clear: () => conversation.clear(),
});

function connect() {
  if (!speakers.areReady || offers.isDenied) return;
  // What was refused is tried again.
  for (const { side, state } of directions.all) if (state === "refused") halves[side].tell(null);
  const sides = speakers.isFace ? SIDES : SIDES.slice(0, 1);
  directions.want(sides.map((side) => ({ ...speakers.pair(side), side })));
}

/** @param {Partial<Choices>} changes */
function change(changes) {
  choose(changes);
  if (changes.isMuted !== undefined) sound.volume = changes.isMuted ? 0 : 1;
  connect();
  showAll();
}

function showAll() {
  bar.show();
  showState();
  for (const half of both) half.show();
  showSentences(null);
}

function showState() {
  const { state } = directions;
  root.dataset.state = state;
  root.dataset.timesResumed = String(directions.all.reduce((sum, { session }) => sum + session.timesResumed, 0));
  bar.showState(`state_${state === "idle" ? idleness() : state}`);
}

/** Why there is no session. */
function idleness() {
  if (offers.isDenied) return "refused";
  if (!offers.isKnown) return "connecting";
  return offers.languages.length ? "idle" : "unserved";
}

/** @param {Sentence | null} changed null: anything may have */
function showSentences(changed) {
  root.classList.toggle("is-empty", conversation.all.length === 0);
  for (const stream of streams) stream.show(conversation.all, changed);
}

const controls = both.map(({ side, button, select }) => {
  select.addEventListener("change", () => {
    talker.stop();
    speakers.choose(side, select.value);
    change({ ...speakers.languages });
  });
  const gesture = holdOrTap(button, {
    get isTalking() {
      return talker.side === side;
    },
    start: () => {
      const { source, target } = speakers.pair(side);
      // One that was refused may be let in by now.
      if (directions.find(source, target)?.state === "refused") connect();
      const direction = directions.find(source, target);
      if (direction) talker.start(side, direction);
    },
    stop: () => talker.stop(),
    latch: () => talker.latch(),
  });
  return { button, gesture };
});
keyboard(controls);

const hurry = () => directions.all.forEach(({ session }) => session.hurry());
window.addEventListener("online", hurry);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) talker.stop();
  else hurry();
});
window.addEventListener("pagehide", () => directions.want([]));
window.addEventListener("pageshow", ({ persisted }) => persisted && connect());

showAll();
offers.ask();
