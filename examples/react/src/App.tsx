// A small app with the hook: choose two languages, speak, read, and hear. To start it: README.md beside it.
import { useState } from "react";
import { useLingua } from "./useLingua";

// Options in the address, such as #scheduler=wss://lingua.example.org
const options = new URLSearchParams(location.hash.slice(1));
const url = options.get("scheduler") ?? "ws://127.0.0.1:5010";
const LANGUAGES = ["en", "pt", "es", "zh"];

export function App() {
  const [source, setSource] = useState("en");
  const [target, setTarget] = useState("pt");
  const lingua = useLingua({ url, source, target });
  return (
    <main>
      <Language label="I speak" value={source} onChange={setSource} />
      <Language label="They read" value={target} onChange={setTarget} />
      <button disabled={lingua.state !== "open"} onClick={lingua.isTalking ? lingua.stop : lingua.talk}>
        {lingua.isTalking ? "Done" : "Speak"}
      </button>
      <p role="status">{lingua.problem || lingua.state}</p>
      {lingua.state === "ended" && <button onClick={lingua.reconnect}>Connect again</button>}
      <ol>
        {lingua.results.map((result) => (
          <li key={result.key}>{result.kind === "translation" ? `${result.text} → ${result.translated}` : `(${result.reason})`}</li>
        ))}
      </ol>
      <p>{lingua.partial && `${lingua.partial} …`}</p>
    </main>
  );
}

function Language({ label, value, onChange }: { label: string; value: string; onChange(value: string): void }) {
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {LANGUAGES.map((tag) => (
          <option key={tag}>{tag}</option>
        ))}
      </select>
    </label>
  );
}
