// Wires the page together: one stream in, one view at a time, drawn once a frame at most.
import { showKeys } from "./dialogs.js";
import { byId, h, setText } from "./dom.js";
import { Failures } from "./failures.js";
import { Instances } from "./instances.js";
import { Job } from "./job.js";
import { Jobs } from "./jobs.js";
import { listen } from "./keys.js";
import { Node } from "./node.js";
import { Nodes } from "./nodes.js";
import { Overview } from "./overview.js";
import { Pair } from "./pair.js";
import { Pairs } from "./pairs.js";
import { empty, heading } from "./parts.js";
import { current } from "./routes.js";
import { Shell, VIEWS } from "./shell.js";
import { Stream } from "./stream.js";
import { answeredAt, choose, preferredLanguage, speak, t } from "./words.js";
import { Changed, setClock, takeChange, takePicture, world } from "./world.js";

/** @import {Route, View} from "./routes.js" */

/** @typedef {new (route: Route) => View} ViewKind */

/** @type {Record<string, ViewKind>} */
const LISTS = { overview: Overview, pairs: Pairs, nodes: Nodes, jobs: Jobs, failures: Failures, instances: Instances };
/** @type {Record<string, ViewKind>} */
const DETAILS = { pairs: Pair, nodes: Node, jobs: Job };
const TICK_MS = 1000;

const main = byId("main");
let changed = new Changed();
let frame = 0;

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
  if (kind === undefined) return new Lost();
  return world.picture === null ? new Waiting() : new kind(route);
}

/** @param {boolean} isNavigation */
function mount(isNavigation) {
  const route = current();
  view.close?.();
  view = viewFor(route);
  main.replaceChildren(view.element);
  // The failure history belongs to the jobs.
  const place = route.name === "failures" ? "jobs" : route.name;
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
});

function furnished() {
  return new Shell({
    onLanguage: async (code) => {
      await choose(code);
      shell = furnished();
      mount(false);
      byId("language").focus();
    },
    onKeys: showKeys,
  });
}

await speak(preferredLanguage());
// The first picture may be an old one.
if (!Number.isNaN(answeredAt())) setClock(answeredAt());
let shell = furnished();
let view = viewFor(current());
mount(false);
stream.open();
addEventListener("hashchange", () => mount(true));
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
listen({ view: () => view, onHelp: showKeys });
setInterval(() => {
  if (document.hidden) return;
  shell.tick(stream.state);
  if (world.picture !== null) view.tick?.();
}, TICK_MS);
