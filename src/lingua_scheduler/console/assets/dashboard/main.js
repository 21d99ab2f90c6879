// Wires the page together: one stream in, one view at a time, drawn once a frame at most.
import { Access } from "./access.js";
import { access } from "./api.js";
import { Audit } from "./audit.js";
import { showKeys } from "./dialogs.js";
import { byId, h, setText } from "./dom.js";
import { Failures } from "./failures.js";
import { Instances } from "./instances.js";
import { Job } from "./job.js";
import { Jobs } from "./jobs.js";
import { Joining } from "./joining.js";
import { listen } from "./keys.js";
import { linkProblem, Login } from "./login.js";
import { Node } from "./node.js";
import { Nodes } from "./nodes.js";
import { Overview } from "./overview.js";
import { Pair } from "./pair.js";
import { Pairs } from "./pairs.js";
import { empty, heading } from "./parts.js";
import { learn, logIn, logOut, may, person, takeCode } from "./person.js";
import { Room } from "./room.js";
import { Rooms } from "./rooms.js";
import { current } from "./routes.js";
import { Shell, VIEWS } from "./shell.js";
import { Stream } from "./stream.js";
import { answeredAt, choose, preferredLanguage, speak, t } from "./words.js";
import { Changed, setClock, takeChange, takePicture, world } from "./world.js";

/** @import {Route, View} from "./routes.js" */

/** @typedef {new (route: Route) => View} ViewKind */

/** @type {Record<string, ViewKind>} */
const LISTS = {
  ...{ overview: Overview, pairs: Pairs, nodes: Nodes, jobs: Jobs, failures: Failures, rooms: Rooms, instances: Instances },
  ...{ access: Access, joining: Joining, audit: Audit },
};
/** @type {Record<string, ViewKind>} */
const DETAILS = { pairs: Pair, nodes: Node, jobs: Job, rooms: Room };
/**
 * What a view shows is read with this scope; all others with fleet:read.
 * @type {Record<string, string>}
 */
const NEEDS = { access: "keys:read", joining: "keys:read", audit: "audit:read" };
/**
 * Views that have no link of their own in the bar belong to another one.
 * @type {Record<string, string>}
 */
const PLACES = { failures: "jobs", joining: "access", audit: "access" };
const TICK_MS = 1000;

const main = byId("main");
let changed = new Changed();
let frame = 0;
let isLocked = false;
let checking = false;

class Lost {
  constructor() {
    this.title = t("lost.title");
    this.element = h(
      "div",
      {},
      heading(t("lost.title")),
      empty(t("lost.words"), h("a", { href: "#/overview" }, t("view.overview"))),
    );
  }

  update() {}
}

class Waiting {
  constructor() {
    this.title = t("loading");
    this.words = h("p");
    this.element = empty(t("loading"), this.words);
  }

  update() {
    setText(this.words, t(stream.state === "away" ? "loading_away" : "loading_words"));
  }
}

/**
 * @param {Route} route
 * @returns {View}
 */
function viewFor(route) {
  const kind = route.id ? DETAILS[route.name] : LISTS[route.name];
  if (kind === undefined || !may(NEEDS[route.name] ?? "fleet:read")) return new Lost();
  return world.picture === null ? new Waiting() : new kind(route);
}

/** @param {boolean} isNavigation */
function mount(isNavigation) {
  if (isLocked) return;
  const route = current();
  view.close?.();
  view = viewFor(route);
  main.replaceChildren(view.element);
  const place = PLACES[route.name] ?? route.name;
  shell.showRoute(VIEWS.includes(place) ? place : "", place === "overview");
  document.title = `${view.title} · Lingua Scheduler`;
  changed.isAll = true;
  draw();
  if (!isNavigation) return;
  scrollTo(0, 0);
  main.querySelector("h1")?.focus({ preventScroll: true });
}

function draw() {
  frame = 0;
  const drawn = changed;
  changed = new Changed();
  if (isLocked) return;
  shell.update(stream.state);
  if (view instanceof Waiting && world.picture !== null) {
    changed = drawn;
    mount(false);
    return;
  }
  if (view instanceof Waiting || world.picture !== null) view.update(drawn);
  // The serial of the picture, for tests.
  document.body.dataset.serial = String(world.picture?.serial ?? "");
}

function drawSoon() {
  if (!frame) frame = requestAnimationFrame(draw);
}

const stream = new Stream("v1/watch", {
  onPicture(message) {
    takePicture(message, changed);
    drawSoon();
  },
  onChange(change) {
    const isWhole = takeChange(change, changed);
    drawSoon();
    return isWhole;
  },
  onState: drawSoon,
  onBroken: check,
});

/** Whether the scheduler still knows who this is; a stream does not tell why it broke. */
async function check() {
  if (isLocked || checking) return;
  checking = true;
  const before = JSON.stringify(person());
  const isKnown = await learn();
  checking = false;
  if (!isKnown) lock(before === "null" ? "" : t("login.ended"));
  else if (JSON.stringify(person()) !== before) unlock();
}

/** @param {string} why */
function lock(why) {
  isLocked = true;
  stream.close();
  view.close?.();
  view = new Login(why, enter);
  shell = furnished();
  main.replaceChildren(view.element);
  document.body.classList.remove("is-old");
  document.title = `${view.title} · Lingua Scheduler`;
  main.querySelector("input")?.focus();
}

function unlock() {
  isLocked = false;
  shell = furnished();
  mount(false);
}

async function enter() {
  if (await learn()) open();
  else lock(t("login.not_kept"));
}

function open() {
  unlock();
  stream.open();
}

/** Another view, or a login link that was pasted over the address of this page. */
async function arrive() {
  const pasted = takeCode();
  if (!pasted) return mount(true);
  const failed = await logIn({ code: pasted }).then(() => "", linkProblem);
  if (!failed) await enter();
  else if (isLocked) lock(failed);
  else mount(false);
}

async function leave() {
  await logOut().catch(() => {});
  // Nothing of what was shown stays in memory.
  location.reload();
}

function furnished() {
  return new Shell({
    onLanguage: async (code) => {
      await choose(code);
      shell = furnished();
      if (isLocked) lock("");
      else mount(false);
      byId("language").focus();
    },
    onKeys: showKeys,
    onLogout: leave,
  }, isLocked);
}

// Before anything else: an address bar is easily photographed.
const code = takeCode();
await speak(preferredLanguage());
// The first picture may be an old one.
if (!Number.isNaN(answeredAt())) setClock(answeredAt());
const linkFailed = code ? await logIn({ code }).then(() => "", linkProblem) : "";
isLocked = !(await learn());
let shell = furnished();
/** @type {View} */
let view = new Waiting();
if (isLocked) lock(linkFailed);
else open();
access.addEventListener("denied", check);
addEventListener("hashchange", arrive);
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
listen({ view: () => view, onHelp: showKeys });
setInterval(() => {
  if (document.hidden || isLocked) return;
  shell.tick(stream.state);
  if (world.picture !== null) view.tick?.();
}, TICK_MS);
