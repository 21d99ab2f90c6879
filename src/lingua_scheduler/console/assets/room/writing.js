// A text message to everyone in the room.
import { find } from "../shared/elements.js";

/** @param {(text: string) => Promise<boolean>} send whether it was sent: if not, the text stays where it was written */
export function listenForText(send) {
  const input = find(HTMLInputElement, "#text");
  find(HTMLFormElement, "#write").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text || (await send(text))) input.value = "";
  });
}
