// Draws who is in the room, and what the host may do with them.
import { button, find, icon, label } from "../shared/elements.js";
import { nameOf, say } from "./words.js";

/** @import {People, Person} from "./people.js" */

export class PeopleView {
  #list = find(HTMLElement, "#people");
  #guests = find(HTMLElement, "#guests");
  #title = find(HTMLElement, "#people-title");
  #count = find(HTMLElement, "#panel .count");
  #speakers = find(HTMLElement, "#speakers");
  #people;
  #on;
  /**
   * Whose voices this person does not want.
   * @type {Set<string>}
   */
  #quiet = new Set();
  /** The people whose buttons are drawn, as text: a list that is drawn again loses the focus. */
  #drawn = "";

  /**
   * @param {People} people
   * @param {{quiet(id: string, isQuiet: boolean): void, remove(person: Person): void}} on
   */
  constructor(people, on) {
    this.#people = people;
    this.#on = on;
  }

  /** @param {boolean} hasVoices whether voices are heard at all; a guest hears none */
  show(hasVoices) {
    const { all, guests, isHost, isLocked } = this.#people;
    const drawn = JSON.stringify([all.map((person) => ({ ...person, isSpeaking: 0 })), isHost, hasVoices, document.documentElement.lang]);
    if (drawn !== this.#drawn) this.#list.replaceChildren(...all.map((person) => this.#item(person, isHost, hasVoices)));
    this.#drawn = drawn;
    this.#speaking(all);
    this.#title.textContent = say("people_count", { n: all.length });
    this.#count.textContent = String(all.length);
    this.#guests.hidden = hasVoices && guests === 0;
    // The count comes a moment after the guest itself.
    this.#guests.textContent = hasVoices ? say("guests", { n: guests }) : say("guests_me", { n: Math.max(1, guests) });
    this.#sum(all);
    find(HTMLElement, "#host").hidden = !isHost;
    find(HTMLElement, "#locked").hidden = !isLocked;
    button("#lock").setAttribute("aria-pressed", String(isLocked));
  }

  /** @param {Person[]} all */
  #speaking(all) {
    for (const { id, isSpeaking } of all) {
      const item = [...this.#list.children].find((one) => one instanceof HTMLElement && one.dataset.id === id);
      item?.classList.toggle("speaking", isSpeaking);
      const told = item?.querySelector(".now");
      if (told) told.textContent = isSpeaking ? say("speaks_now") : "";
    }
  }

  /**
   * For those who do not see the list beside the conversation: who speaks, or else how many are there.
   * @param {Person[]} all
   */
  #sum(all) {
    const names = all.filter(({ isSpeaking, isMe }) => isSpeaking && !isMe).flatMap((one) => [speaker(one), ", "]);
    const guests = this.#guests.hidden ? "" : ` ${this.#guests.textContent}`;
    const parts = names.length ? [span("now", say("speakers")), " ", ...names.slice(0, -1)] : [this.#title.textContent + guests];
    this.#speakers.replaceChildren(...parts);
  }

  /**
   * @param {Person} person
   * @param {boolean} isHost
   * @param {boolean} hasVoices
   */
  #item(person, isHost, hasVoices) {
    const item = document.createElement("li");
    item.dataset.id = person.id;
    item.dataset.colour = String(person.colour);
    const about = span("about", "");
    const [first, second] = [span("first", ""), span("second", "")];
    first.append(span("name", person.name), ...tags(person));
    second.append(span("language", nameOf(person.language)), span("now", ""));
    about.append(first, second);
    about.title = person.name;
    item.append(initial(person), about);
    if (!person.isMe && hasVoices) item.append(this.#voice(person));
    if (!person.isMe && isHost) item.append(this.#remove(person));
    return item;
  }

  /** @param {Person} person */
  #voice({ id, name }) {
    const toggle = document.createElement("button");
    const draw = () => {
      const isQuiet = this.#quiet.has(id);
      label(toggle, say(isQuiet ? "voice_on" : "voice_off", { name }));
      toggle.setAttribute("aria-pressed", String(isQuiet));
      toggle.replaceChildren(icon(isQuiet ? "muted" : "sound"));
    };
    toggle.type = "button";
    toggle.addEventListener("click", () => {
      if (!this.#quiet.delete(id)) this.#quiet.add(id);
      this.#on.quiet(id, this.#quiet.has(id));
      draw();
    });
    draw();
    return toggle;
  }

  /** @param {Person} person */
  #remove(person) {
    const remove = document.createElement("button");
    remove.type = "button";
    label(remove, say("remove", { name: person.name }));
    remove.append(icon("remove"));
    remove.addEventListener("click", () => this.#on.remove(person));
    return remove;
  }
}

/** @param {Person} person */
function speaker({ name, colour }) {
  const found = span("name", name);
  found.dataset.colour = String(colour);
  return found;
}

/** @param {Person} person */
function tags({ isMe, role }) {
  const words = [isMe ? say("you_tag") : "", role ? say(role) : ""];
  return words.filter(Boolean).map((word) => span("tag", word));
}

/** @param {Person} person */
function initial({ name }) {
  const [first = "?"] = name.trim();
  const found = span("initial", first.toLocaleUpperCase());
  found.setAttribute("aria-hidden", "true");
  return found;
}

/**
 * @param {string} name
 * @param {string} text
 */
function span(name, text) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  return element;
}
