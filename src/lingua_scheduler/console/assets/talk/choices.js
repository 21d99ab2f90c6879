// What the person has chosen, kept in this browser alone.

const KEY = "lingua.talk";
const DEFAULTS = {
  a: "",
  b: "",
  interface: "",
  layout: "",
  theme: "",
  size: 1,
  isMuted: false,
};

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return Object.fromEntries(
      Object.entries(DEFAULTS).map(([name, value]) => [name, typeof kept[name] === typeof value ? kept[name] : value]),
    );
  } catch {
    return { ...DEFAULTS };
  }
}

export const choices = read();

export function choose(changes) {
  Object.assign(choices, changes);
  try {
    localStorage.setItem(KEY, JSON.stringify(choices));
  } catch {
    // A browser that keeps nothing is one that forgets, no more.
  }
}
