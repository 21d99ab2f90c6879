// One half's view of the conversation: what was said in its own language large, the other beside it.

export class Stream {
  #list;
  #viewer;
  #words;
  #onReplay;

  /** `viewer` is the side that reads it; `words(key)` speaks its language. */
  constructor(list, viewer, words, onReplay) {
    this.#list = list;
    this.#viewer = viewer;
    this.#words = words;
    this.#onReplay = onReplay;
  }

  /** One sentence has changed; null means that anything may have. */
  show(sentences, changed) {
    const isNew = changed && sentences.includes(changed) && !this.#find(changed.id);
    if (changed === null || (changed && !sentences.includes(changed)) || sentences.length < this.#list.children.length) {
      const kept = new Set(sentences.map(({ id }) => String(id)));
      [...this.#list.children].filter(({ dataset }) => !kept.has(dataset.id)).forEach((item) => item.remove());
    }
    for (const sentence of changed ? [changed] : sentences) {
      if (!sentences.includes(sentence)) continue;
      const item = this.#find(sentence.id) ?? this.#list.appendChild(this.#make(sentence));
      this.#fill(item, sentence);
    }
    if (isNew || changed === null || changed?.id === sentences.at(-1)?.id) this.#list.scrollTop = this.#list.scrollHeight;
  }

  #find(id) {
    return this.#list.querySelector(`[data-id="${id}"]`);
  }

  #make({ id }) {
    const item = document.createElement("li");
    item.dataset.id = id;
    item.append(line("heard"), line("translated"), this.#button(id));
    return item;
  }

  #button(id) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "replay";
    button.append(icon("play"));
    button.addEventListener("click", () => this.#onReplay(id));
    return button;
  }

  #fill(item, sentence) {
    const { side, state, source, target, reason } = sentence;
    const isMine = side === this.#viewer;
    item.className = `${isMine ? "mine" : "theirs"} ${state}`;
    item.classList.toggle("playing", Boolean(sentence.isPlaying));
    const [heard, translated, replay] = item.children;
    put(heard, sentence.heard || (state === "listening" ? this.#words("listening") : ""), source);
    const waiting = state === "pending" || state === "partial" ? this.#words("translating") : "";
    put(translated, state === "missing" ? this.#words(reason) : sentence.translated || waiting, target);
    replay.hidden = !sentence.clip;
    replay.setAttribute("aria-label", this.#words("replay"));
  }
}

function line(name) {
  const paragraph = document.createElement("p");
  paragraph.className = name;
  paragraph.dir = "auto";
  return paragraph;
}

function put(element, text, language) {
  if (element.textContent !== text) element.textContent = text;
  element.lang = language;
  element.hidden = !text;
}

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}
