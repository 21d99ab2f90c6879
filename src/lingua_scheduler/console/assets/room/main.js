// Wires the room page together: the door, one stay in a room, and what is shown and heard of it.
import { button, find, root } from "../shared/elements.js";
import { Voices } from "../shared/client.js";
import { preferred } from "../shared/i18n.js";
import { Offers } from "../shared/offers.js";
import { Pass } from "../shared/pass.js";
import { httpUrl, socketUrl } from "../shared/places.js";
import { Sound } from "../shared/sound.js";
import { keepAwake } from "../shared/wake.js";
import { fragmentOf, readAddress, spaced } from "./address.js";
import { Bar } from "./bar.js";
import { choices, choose } from "./choices.js";
import { Controls } from "./controls.js";
import { Door } from "./door.js";
import { Hearing } from "./hearing.js";
import { InviteView } from "./invite-view.js";
import { hindrance, native, offered, partner } from "./languages.js";
import { OwnVoice } from "./own-voice.js";
import { watchPage } from "./page-events.js";
import { keepOwnSession, ownSessions } from "./own-sessions.js";
import { People } from "./people.js";
import { PeopleView } from "./people-view.js";
import { permitOf } from "./permits.js";
import { save } from "./saving.js";
import { RoomSession } from "./session.js";
import { Side } from "./side.js";
import { StreamView } from "./stream-view.js";
import { Talking } from "./talking.js";
import { Transcript } from "./transcript.js";
import { isWord, nameOf, say, whyEnded } from "./words.js";
import { listenForText } from "./writing.js";

/** @import {Choices} from "./choices.js" */
/** @import {MembersChanged, Said, Unheard} from "../shared/client.js" */

const LOOK_EVERY_MS = 2_000;

choose({ interface: preferred(choices.interface, [navigator.language]) });

let invitation = readAddress(location);
const pass = new Pass(httpUrl("v1/"), invitation.token);
const offers = new Offers(httpUrl("v1/pools"), showAll, pass);
const sound = new Sound(1, () => tell(say("no_sound")));
const people = new People((number) => say("someone", { n: number }), ownSessions());
const bar = new Bar(() => change({ interface: choices.interface === "zh" ? "en" : "zh" }), leave);
const invite = new InviteView();
const notice = find(HTMLElement, "#room-notice");
const keep = button("#keep");

/** @type {RoomSession | null} */
let session = null;
let isGuest = false;
let roomCode = ""; // of the room that one is in, or was in last
let transcript = emptyTranscript();

const voices = new Voices({
  heard: (id, stream) => hearing.voice(id, stream),
  gone: (id) => hearing.silence(id),
  changed: () => (root.dataset.voices = String(voices.connected)),
});

const hearing = new Hearing(sound, find(HTMLElement, "#heard"), {
  playing: (line, isPlaying) => transcript.change(line, { isPlaying }),
  ready: (line, clip) => transcript.change(line, { clip }),
});

const talking = new Talking(sound, {
  send: (samples, isFinal) => session?.send(samples, isFinal) ?? false,
  phase: (phase) => {
    controls.become(phase);
    own.enable(phase === "held" || phase === "latched");
    keepAwake(phase !== "off");
  },
  level: (level, isSpeech) => {
    controls.hear(level);
    if (session) people.speaks(session.id, isSpeech, Date.now());
    showPeople();
  },
  notice: (word) => tell(word ? say(word) : ""),
});

const own = new OwnVoice((track) => voices.use(track));
sound.onStream = (/** @type {MediaStream | null} */ opened) => own.use(opened);

const stream = new StreamView((id) => people.colour(id), (line) => hearing.replay(line));
const peopleView = new PeopleView(people, {
  quiet: (id, isQuiet) => hearing.setQuiet(id, isQuiet),
  remove: ({ id, name }) => side.ask("remove_sure", "do_remove", { name }, () => session?.remove(id)),
});
const controls = new Controls(talking, change);
const side = new Side({
  change,
  lock: (locked) => session?.lock(locked),
  end: () => session?.close(),
  download: () => save(roomCode, transcript.lines),
});
const door = new Door({ enter, invalid: () => door.tell(say("INVALID_ROOM_CODE")) });

function emptyTranscript() {
  const made = new Transcript((changed) => {
    if (transcript === made) stream.show(made.lines, made.live, changed);
  });
  return made;
}

/**
 * @param {string} code empty: a new room
 * @param {boolean} asGuest
 */
function enter(code, asGuest) {
  session?.leave();
  // A touch or a key has brought us here: now the page may make a sound.
  sound.wake();
  isGuest = asGuest;
  root.toggleAttribute("data-guest", isGuest);
  const { name, language } = choices;
  const wantsSpeech = choices.translations > 0;
  const person = { name, language, partner: partner(offers, language), wantsSpeech, isGuest };
  const entering = new RoomSession(socketUrl(), person, {
    state: bar.state,
    entering: (room) => (isGuest ? voices.leave() : voices.follow(room)),
    entered,
    members,
    speaking: ({ speaker, isSpeaking }) => {
      people.speaks(speaker, isSpeaking, Date.now());
      showPeople();
    },
    caption: (caption) => transcript.caption(caption, people.who(caption.speaker), Date.now()),
    outcome,
    message: (message) => transcript.message(message, people.who(message.speaker, message.name)),
    history: ({ lines }) => lines.forEach((line) => transcript.earlier(line, people.who(line.speaker, line.name))),
    settled: () => transcript.forget(Date.now(), session?.id),
    failed,
    ended: (reason, message) => out(whyEnded(reason, message)),
  }, pass);
  session = entering;
  transcript = emptyTranscript();
  stream.show([], [], null);
  door.tell("");
  door.become({ isBusy: true });
  entering.enter(code);
}

/** @param {string} code */
function entered(code) {
  const id = session?.id ?? "";
  roomCode = bar.code = code;
  people.become(id);
  keepOwnSession(id);
  // A page that is loaded again asks for the same room.
  history.replaceState(null, "", fragmentOf({ ...invitation, code, isGuest }));
  if (root.dataset.view === "room") return;
  root.dataset.view = "room";
  door.isShown = false;
  find(HTMLElement, "#room").hidden = false;
  invite.show(code, pass.needsToken);
  find(HTMLElement, "#room-title").textContent = `${say("title")} ${spaced(code)}`;
  showAll();
  find(HTMLElement, "#stream").focus();
}

/** @param {MembersChanged} event */
function members(event) {
  const { came, left } = people.told(event);
  for (const who of came) transcript.note("joined_note", who, Date.now());
  for (const who of left) {
    transcript.forget(Date.now(), who.id);
    transcript.note("left_note", who, Date.now());
  }
  showPeople();
}

/** @param {Said | Unheard} event */
function outcome(event) {
  const who = people.who(event.speaker);
  const line = transcript.outcome(event, who, Date.now());
  if (line && !who.isMe && event.kind === "said" && session?.session) hearing.translation(line, event, session.session);
}

/** @param {string} code */
function failed(code) {
  (session?.isIn ? tell : out)(say(isWord(code) ? code : "INTERNAL_ERROR"));
}

function leave() {
  session?.leave();
  out(say("left"), true);
}

/**
 * Back to the door, where what was said can still be saved.
 * @param {string} text why
 */
function out(text, isCalm = false) {
  talking.stop();
  voices.leave();
  hearing.stop();
  people.told({ members: [], guests: 0, isLocked: false });
  session = null;
  const wasIn = root.dataset.view === "room";
  root.dataset.view = "door";
  side.close();
  find(HTMLElement, "#room").hidden = true;
  door.isShown = true;
  door.become({ isBusy: false });
  door.tell(text, isCalm);
  keep.hidden = transcript.lines.length === 0;
  bar.code = "";
  bar.state("out");
  if (wasIn) door.focus();
  if (pass.isDenied) showOffers();
}

/** @param {Partial<Choices>} changes */
function change(changes) {
  const hadSpeech = choices.translations > 0;
  choose(changes);
  const hasSpeech = choices.translations > 0;
  const { name, language } = changes;
  if (name !== undefined || language !== undefined) session?.update({ name, language });
  if (hasSpeech !== hadSpeech) session?.update({ wantsSpeech: hasSpeech });
  // Not more often: a screen reader reads again what is drawn again.
  if (changes.interface) stream.show(transcript.lines, transcript.live, null);
  showAll();
}

/** @param {string} text */
function tell(text) {
  notice.hidden = !text;
  if (notice.textContent !== text) notice.textContent = text;
}

function showPeople() {
  if (root.dataset.view === "room") peopleView.show(!isGuest);
  stream.explain(say(isGuest ? "empty_guest" : people.ids.length < 2 ? "empty_alone" : "empty"));
}

function showAll() {
  if (offers.isKnown && !choices.language) choose({ language: native(offered(offers, ""), navigator.languages) });
  bar.show();
  controls.show();
  const codes = offered(offers, choices.language);
  door.offer(codes);
  side.show(codes, !isGuest);
  const loud = choices.isSilent ? 0 : 1;
  hearing.setVolumes(choices.voices * loud, choices.translations * loud);
  if (root.dataset.view === "room") invite.show(roomCode, pass.needsToken);
  showPeople();
  showOffers();
}

/** What is in the way. */
function showOffers() {
  if (session) {
    const { language } = choices;
    const word = hindrance(offers, language);
    if (root.dataset.view === "room" && offers.isKnown) tell(word && say(word, { language: nameOf(language) }));
    return;
  }
  const permit = permitOf(pass.holder);
  door.limit(permit);
  door.deny(pass.denial || permit.denial || (offers.isReachable ? "" : "unreachable"));
}

setInterval(() => {
  const now = Date.now();
  transcript.forget(now);
  if (people.tire(now)) showPeople();
}, LOOK_EVERY_MS);

listenForText(async (text) => session?.say(text) ?? false);
keep.addEventListener("click", () => save(roomCode, transcript.lines));
watchPage({
  back: () => session?.hurry(),
  // Hands-free people look at other pages while they talk.
  away: () => (choices.isHandsFree ? session?.hurry() : talking.stop()),
  moved: () => {
    if (session) return;
    door.invite((invitation = readAddress(location)));
    offers.askWith(invitation.token);
  },
  left: () => session?.leave(),
});

root.dataset.view = "door";
door.invite(invitation);
bar.state("out");
showAll();
offers.ask();
