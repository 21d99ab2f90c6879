// Wires the page together: one stream in, one view at a time, drawn once a frame at most.
import { showKeys } from "./dialogs.js";
import { h, setText } from "./dom.js";
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

const LISTS = { overview: Overview, pairs: Pairs, nodes: Nodes, jobs: Jobs, instances: Instances };
const DETAILS = { pairs: Pair, nodes: Node, jobs: Job };
const TICK_MS = 1000;

const main = document.getElementById("main");
let shell = null;
let view = null;
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

function viewFor(route) {
  const kind = route.id ? DETAILS[route.name] : LISTS[route.name];
  if (kind === undefined) return new Lost();
  return world.picture === null ? new Waiting() : new kind(route);
}

function mount(isNavigation) {
  const route = current();
  view?.close?.();
  view = viewFor(route);
  main.replaceChildren(view.element);
  shell.showRoute(VIEWS.includes(route.name) ? route.name : "", route.name === "overview");
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
  if (world.picture !== null) {
    if (view instanceof Waiting) {
      changed = drawn;
      mount(false);
      return;
    }
    view.update(drawn);
  } else if (view instanceof Waiting) view.update();
  // Which picture this is, for whoever looks on from outside.
  document.body.dataset.serial = world.picture?.serial ?? "";
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

function furnish() {
  shell = new Shell({
    onLanguage: async (code) => {
      await choose(code);
      furnish();
      mount(false);
      document.getElementById("language").focus();
    },
    onKeys: showKeys,
  });
}

await speak(preferredLanguage());
// The first picture may be an old one.
if (!Number.isNaN(answeredAt())) setClock(answeredAt());
furnish();
mount(false);
stream.open();
addEventListener("hashchange", () => mount(true));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
listen({ view: () => view, onHelp: showKeys });
setInterval(() => {
  if (document.hidden) return;
  shell.tick(stream.state);
  if (world.picture !== null) view.tick?.();
}, TICK_MS);
