// The talk page: ties the buttons, the conversation, the sessions and the sound together.

import { holdOrTap, keyboard } from "./button.js";
import { choices, choose } from "./choices.js";
import { Conversation } from "./conversation.js";
import { Directions } from "./directions.js";
import { isPossible } from "./microphone.js";
import { Offers } from "./offers.js";
import { Results } from "./results.js";
import { Sound } from "./sound.js";
import { Stream } from "./stream.js";
import { Talker } from "./talker.js";
import { keepAwake } from "./wake.js";
import { INTERFACES, nameOf, say, spoken } from "./words.js";

const SIDES = ["a", "b"];
const SIZES = 4;
const NARROW_PX = 700;

const $ = (selector, within = document) => within.querySelector(selector);
const root = document.documentElement;
const halves = Object.fromEntries(SIDES.map((side) => [side, $(`.half[data-side=${side}]`)]));
const other = (side) => (side === "a" ? "b" : "a");
const languages = { a: "", b: "" };
const notices = { a: null, b: null };
const phases = { a: "idle", b: "idle" };

choose({
  interface: INTERFACES.includes(choices.interface) ? choices.interface : spoken(navigator.language, "en"),
  layout: choices.layout || (window.innerWidth < NARROW_PX ? "face" : "solo"),
});

// Words

const isFace = () => choices.layout === "face";
/** Across the table sits somebody who reads another language. */
const reads = (side) => (isFace() ? spoken(languages[side], choices.interface) : choices.interface);
const word = (side, key, values) => say(reads(side), key, values);

function showWords() {
  root.lang = choices.interface === "zh" ? "zh-CN" : "en";
  document.title = `${say(choices.interface, "title")} · Lingua Scheduler`;
  for (const element of document.querySelectorAll("[data-label]")) label(element, element.dataset.label);
  label($("#sound"), choices.isMuted ? "sound_off" : "sound_on");
  for (const element of document.querySelectorAll("[data-word]")) {
    const half = element.closest(".half")?.dataset.side;
    const key = element.dataset.word === "to" && isFace() ? "speaks" : element.dataset.word;
    element.textContent = half ? word(half, key) : say(choices.interface, key);
  }
  for (const side of SIDES) halves[side].lang = reads(side);
  showState();
  showOffers();
  showTalk();
  for (const side of SIDES) streams[side].show(conversation.all, null);
}

function label(element, key) {
  element.title = say(choices.interface, key);
  element.setAttribute("aria-label", element.title);
}

// Looks

function showLooks() {
  root.dataset.layout = choices.layout;
  root.dataset.size = choices.size;
  if (choices.theme) root.dataset.theme = choices.theme;
  $("#sound use").setAttribute("href", choices.isMuted ? "#icon-muted" : "#icon-sound");
  $("#sound").setAttribute("aria-pressed", String(choices.isMuted));
  $("#interface span").textContent = choices.interface === "zh" ? "EN" : "中";
}

function change(changes) {
  choose(changes);
  showLooks();
  connect();
  showWords();
}

// The conversation

const streams = {};
const conversation = new Conversation((changed) => {
  root.classList.toggle("is-empty", conversation.all.length === 0);
  for (const side of SIDES) streams[side].show(conversation.all, changed);
});
for (const side of SIDES) {
  const say = (key) => word(side, key);
  streams[side] = new Stream($(".stream", halves[side]), side, say, (id) => results.replay(id));
}
root.classList.add("is-empty");

// Sound

let played = 0;
const sound = new Sound(choices.isMuted, ({ seconds, peak }) => {
  played += seconds;
  const { dataset, style } = $("#loudness");
  dataset.playedSeconds = played.toFixed(3);
  dataset.peak = peak.toFixed(4);
  dataset.loudest = Math.max(Number(dataset.loudest ?? 0), peak).toFixed(4);
  style.setProperty("--level", peak.toFixed(3));
});

// Sessions

const results = new Results(conversation, sound, $("#spoken"), () => notice("a", "no_sound"));
const directions = new Directions(socketUrl(), {
  state: showState,
  outcome: (direction, message) => results.outcome(direction, message),
  partial: (direction, message) => results.partial(direction, message),
  trouble: (direction, message) => results.trouble(direction, message),
  lost: (direction, count) => conversation.restart(direction, count),
  settled: (direction) => conversation.settle(direction),
  refused: (direction, reason) => notice(direction.side, "refused", { reason }),
});

function socketUrl() {
  const url = new URL("../ws/session", import.meta.url);
  url.protocol = url.protocol.replace("http", "ws");
  return url;
}

function connect() {
  if (!languages.a || !languages.b || languages.a === languages.b) return;
  const sides = isFace() ? SIDES : ["a"];
  directions.want(sides.map((side) => ({ source: languages[side], target: languages[other(side)], side })));
}

function showState() {
  const state = directions.state;
  root.dataset.state = state;
  const told = say(choices.interface, `state_${state === "idle" ? idleness() : state}`);
  if ($("#state .told").textContent !== told) $("#state .told").textContent = told;
  $("#state").title = told;
  root.dataset.timesResumed = directions.all.reduce((sum, { link }) => sum + (link?.timesResumed ?? 0), 0);
}

/** Why there is no session. */
function idleness() {
  if (!offers.isKnown) return "connecting";
  return offers.languages.length ? "idle" : "unserved";
}

// Languages

const offers = new Offers(new URL("../v1/pools", import.meta.url), () => {
  chooseLanguages();
  connect();
  showWords();
});

/** What was chosen before, else the page's own language and the first other that is served. */
function chooseLanguages() {
  const offered = offers.languages;
  if (!languages.a) languages.a = choices.a || (offered.includes(choices.interface) ? choices.interface : (offered[0] ?? ""));
  const wanted = (code) => code !== languages.a && offers.of(languages.a, code) === "speech";
  const common = languages.a === "zh" ? "en" : "zh";
  if (!languages.b) languages.b = choices.b || [common, ...offered].find(wanted) || offered.find((code) => code !== languages.a) || "";
}

function showOffers() {
  for (const side of SIDES) {
    const select = $("select", halves[side]);
    const codes = new Set([...offers.languages, languages.a, languages.b].filter(Boolean));
    const named = [...codes].map((code) => [code, nameOf(code, reads(side))]);
    named.sort((one, two) => one[1].localeCompare(two[1], reads(side)));
    const shown = JSON.stringify(named);
    if (select.dataset.shown !== shown) {
      select.replaceChildren(...named.map(([code, name]) => new Option(name, code)));
      select.dataset.shown = shown;
    }
    select.value = languages[side];
    showNotice(side);
  }
}

/** Why this side cannot talk, or null. */
function obstacle(side) {
  const [source, target] = [languages[side], languages[other(side)]];
  if (!isPossible()) return ["mic_insecure"];
  if (!offers.isKnown) return offers.isReachable ? [""] : ["unreachable"];
  if (!offers.languages.length) return ["no_nodes"];
  if (source === target) return ["same"];
  const names = { source: nameOf(source, reads(side)), target: nameOf(target, reads(side)) };
  return { speech: null, text: ["text_only", names], none: ["unserved", names] }[offers.of(source, target)];
}

function notice(side, key, values) {
  notices[side] = key && [key, values];
  showNotice(side);
}

function showNotice(side) {
  const hindrance = obstacle(side);
  const told = hindrance ?? notices[side];
  const element = $(".notice", halves[side]);
  element.textContent = told?.[0] ? word(side, ...told) : "";
  element.hidden = !element.textContent;
  // The other half tells the same; once is enough when both are of one mind.
  $(".speak", halves[side]).disabled = Boolean(hindrance) && talker.side !== side;
  showHint(side);
}

function showHint(side) {
  const hindrance = obstacle(side);
  // Before the first answer nobody knows.
  const idle = hindrance ? hindrance[0] && "cannot" : "hold";
  const key = phases[side] === "idle" ? idle : phases[side];
  $(".hint", halves[side]).textContent = key && word(side, key);
}

// Talking

const talker = new Talker(sound, conversation, {
  phase: (side, phase) => {
    phases[side] = phase;
    showTalk();
    keepAwake(phase !== "idle");
  },
  level: (side, level) => $(".talk", halves[side]).style.setProperty("--level", Math.min(1, level * 5).toFixed(3)),
  notice,
});

function showTalk() {
  for (const side of SIDES) {
    const button = $(".speak", halves[side]);
    const phase = phases[side];
    halves[side].dataset.phase = phase;
    button.setAttribute("aria-pressed", String(phase !== "idle"));
    button.setAttribute("aria-label", word(side, "talk_in", { language: nameOf(languages[side] || "en", reads(side)) }));
    $("use", button).setAttribute("href", phase === "listening_tap" ? "#icon-stop" : "#icon-mic");
    showHint(side);
  }
}

const controls = SIDES.map((side) => {
  const button = $(".speak", halves[side]);
  const gesture = holdOrTap(button, {
    get isTalking() {
      return talker.side === side;
    },
    start: () => {
      const direction = directions.find(languages[side], languages[other(side)]);
      if (direction) talker.start(side, direction);
    },
    stop: () => talker.stop(),
    latch: () => talker.latch(),
  });
  return { button, gesture };
});
keyboard(controls);

// Controls

for (const side of SIDES) {
  $("select", halves[side]).addEventListener("change", ({ target }) => {
    const former = languages[side];
    talker.stop();
    languages[side] = target.value;
    // Who chooses the other's language means to swap.
    if (languages[other(side)] === target.value) languages[other(side)] = former;
    change({ a: languages.a, b: languages.b });
  });
}
$("#swap").addEventListener("click", () => {
  talker.stop();
  [languages.a, languages.b] = [languages.b, languages.a];
  change({ a: languages.a, b: languages.b });
});
$("#sound").addEventListener("click", () => {
  sound.isMuted = !choices.isMuted;
  change({ isMuted: !choices.isMuted });
});
$("#size").addEventListener("click", () => change({ size: (choices.size + 1) % SIZES }));
$("#layout").addEventListener("click", () => {
  talker.stop();
  change({ layout: isFace() ? "solo" : "face" });
});
$("#theme").addEventListener("click", () => {
  const isDark = (choices.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  change({ theme: isDark ? "light" : "dark" });
});
$("#interface").addEventListener("click", () => change({ interface: choices.interface === "zh" ? "en" : "zh" }));
$("#clear").addEventListener("click", () => conversation.clear());

const hurry = () => directions.all.forEach(({ link }) => link.hurry());
window.addEventListener("online", hurry);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) talker.stop();
  else hurry();
});
window.addEventListener("pagehide", () => directions.want([]));
window.addEventListener("pageshow", ({ persisted }) => persisted && connect());

showLooks();
showWords();
offers.ask();
