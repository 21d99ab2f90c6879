// The way in: a name, a language, and the code of a room, or a new one.
import { button, find, root } from "../shared/elements.js";
import { httpUrl } from "../shared/places.js";
import { digits, isCode, spaced } from "./address.js";
import { choices, choose } from "./choices.js";
import { permitOf } from "./permits.js";
import { nameOf, reader, say } from "./words.js";

/** @import {Invitation} from "./address.js" */
/** @import {Permit} from "./permits.js" */
/** @import {Word} from "./words.js" */

// What a login helps against, where one can log in.
/** @type {Set<Word>} */
const LOGIN_HELPS = new Set(["needs_login", "needs_role"]);

export class Door {
  #section = find(HTMLElement, "#door");
  #name = find(HTMLInputElement, "#name");
  #language = find(HTMLSelectElement, "#language");
  #code = find(HTMLInputElement, "#code");
  #guest = find(HTMLInputElement, "#guest");
  #notice = find(HTMLElement, "#door-notice");
  #login = find(HTMLElement, "#login");
  #isBusy = false;
  #permit = permitOf(null);
  /**
   * Why no one gets in from here.
   * @type {Word | ""}
   */
  #denial = "";
  #on;

  /** @param {{enter(code: string, isGuest: boolean): void, invalid(): void}} on an empty code is a new room */
  constructor(on) {
    this.#on = on;
    this.#name.value = choices.name;
    this.#name.addEventListener("input", () => choose({ name: this.#name.value.trim() }));
    this.#language.addEventListener("change", () => choose({ language: this.#language.value }));
    this.#code.addEventListener("input", () => this.show());
    this.#guest.addEventListener("change", () => this.show());
    find(HTMLFormElement, "#door form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#join();
    });
    button("#create").addEventListener("click", () => this.#on.enter("", false));
  }

  /** @param {Invitation} invitation */
  invite({ code, isGuest }) {
    this.#code.value = code && spaced(code);
    this.#guest.checked = isGuest;
    this.limit(this.#permit);
  }

  /**
   * A token of an app may be for one room, and for listening.
   * @param {Permit} permit
   */
  limit(permit) {
    const { mayCreate, code, isListener } = (this.#permit = permit);
    button("#create").hidden = find(HTMLElement, "#or").hidden = !mayCreate;
    this.#code.readOnly = code !== "";
    if (code) this.#code.value = spaced(code);
    this.#guest.disabled = isListener;
    if (isListener) this.#guest.checked = true;
    this.show();
  }

  /** Which field a person fills in first. */
  focus() {
    (this.#name.value ? this.#code : this.#name).focus();
  }

  /** @param {{isBusy: boolean}} state */
  become({ isBusy }) {
    this.#isBusy = isBusy;
    this.show();
  }

  /** @param {boolean} isShown */
  set isShown(isShown) {
    this.#section.hidden = !isShown;
    this.#name.value = choices.name;
  }

  /** @param {string} text empty: nothing is wrong */
  tell(text, isCalm = false) {
    this.#notice.hidden = !text;
    this.#notice.textContent = text;
    this.#notice.classList.toggle("is-calm", isCalm);
    this.#login.hidden = true;
  }

  /**
   * Why no one gets in from here, and what helps.
   * @param {Word | ""} word empty: the way is free
   */
  async deny(word) {
    const wasDenied = this.#denial !== "";
    this.#denial = word;
    // A form that cannot be sent is in the way of what helps.
    this.#section.toggleAttribute("data-denied", word !== "" && word !== "unreachable");
    this.#isBusy = false;
    this.show();
    if (word || wasDenied) this.tell(word && say(word));
    if (!word || !LOGIN_HELPS.has(word)) return;
    // A port for the public has no dashboard.
    const answer = await fetch(httpUrl("dashboard"), { method: "HEAD" }).catch(() => null);
    this.#login.hidden = !answer?.ok || this.#denial !== word;
  }

  show() {
    const code = digits(this.#code.value);
    const join = button("#join");
    join.textContent = this.#isBusy ? say("entering") : isCode(code) ? say("join_code", { code: spaced(code) }) : say("join");
    join.disabled = this.#isBusy || this.#denial !== "";
    button("#create").disabled = join.disabled;
    if (!this.#section.hidden) root.toggleAttribute("data-guest", this.#guest.checked);
  }

  /** @param {string[]} codes */
  offer(codes) {
    fillLanguages(this.#language, codes);
  }

  #join() {
    const code = digits(this.#code.value);
    if (isCode(code)) this.#on.enter(code, this.#guest.checked);
    else {
      this.#on.invalid();
      this.#code.focus();
    }
  }
}

/**
 * @param {HTMLSelectElement} select
 * @param {string[]} codes
 */
export function fillLanguages(select, codes) {
  const named = codes.map((code) => ({ code, name: nameOf(code) }));
  named.sort((one, other) => one.name.localeCompare(other.name, reader()));
  const drawn = JSON.stringify([named, choices.language]);
  if (select.dataset.drawn === drawn) return;
  select.dataset.drawn = drawn;
  select.replaceChildren(
    ...named.map(({ code, name }) => {
      const option = document.createElement("option");
      option.value = code;
      option.textContent = name;
      option.selected = code === choices.language;
      return option;
    }),
  );
}
