// German: what a person reads on their half of the page.

/** @type {import("./words.js").HalfWords} */
export default {
  hold: "Zum Sprechen halten oder tippen",
  hold_keys: "Zum Sprechen halten oder klicken",
  cannot: "Sprechen ist gerade nicht möglich",
  read_here: "Hier lesen und zuhören",
  opening: "Mikrofon wird geöffnet …",
  listening: "Ich höre zu …",
  listening_tap: "Ich höre zu … zum Beenden tippen",
  listening_tap_keys: "Ich höre zu … zum Beenden klicken",
  translating: "Wird übersetzt …",
  speaks: "Ich spreche",
  reads: "Ich lese",
  to: "Übersetzen in",
  talk_in: "{language} sprechen",
  replay: "Noch einmal anhören",
  empty: "Hier erscheint, was Sie sagen, mit Übersetzung.",
  empty_listen: "Was die andere Person sagt, erscheint hier in Ihrer Sprache.",
  empty_hint: "Halten Sie die Taste beim Sprechen, oder tippen Sie einmal zum Beginnen und einmal zum Beenden.",
  empty_hint_keys:
    "Halten Sie die Taste oder die Leertaste beim Sprechen, oder drücken Sie einmal zum Beginnen und einmal zum Beenden.",
  unserved: "Von {source} nach {target} wird gerade nicht übersetzt.",
  listen_only:
    "Vorerst können Sie hier lesen und zuhören. Die Übersetzung von {source} nach {target} gibt es noch nicht.",
  text_only: "{target} gibt es gerade nur als Text, nicht gesprochen.",
  no_nodes:
    "Noch ist kein Knoten verbunden. Starten Sie einen auf diesem Rechner: {command} (zum Ausprobieren ohne Sprachmodelle: {command} --engine sim)",
  same: "Wählen Sie zwei verschiedene Sprachen.",
  needs_login: "Diese Seite braucht eine Anmeldung. Bitte melden Sie sich im Dashboard als Administrator an.",
  unreachable: "Der Scheduler antwortet nicht. Läuft er?",
  mic_insecure:
    "Der Browser erlaubt das Mikrofon nur auf Seiten mit https oder auf localhost. Öffnen Sie diese Seite mit https:// (siehe docs/talk.md) oder auf dem Rechner selbst.",
  mic_denied:
    "Das Mikrofon ist nicht erlaubt. Erlauben Sie es für diese Seite in den Einstellungen des Browsers, dann noch einmal drücken.",
  mic_none: "Kein Mikrofon gefunden. Schließen Sie eines an, dann noch einmal drücken.",
  mic_taken: "Ein anderes Programm benutzt das Mikrofon. Schließen Sie es, dann noch einmal drücken.",
  mic_failed: "Das Mikrofon ließ sich nicht öffnen. Laden Sie die Seite neu und versuchen Sie es noch einmal.",
  mic_ready: "Das Mikrofon ist bereit: noch einmal drücken und sprechen.",
  no_sound: "Dieser Browser kann die gesprochene Übersetzung nicht abspielen.",
  too_long:
    "Die Verbindung war zu lange weg: angehalten. Was Sie gesagt haben, bleibt gespeichert, bis sie wieder da ist.",
  forgotten: "Eine halbe Minute ohne Sprache: angehalten.",
  lost: "Die Verbindung war zu lange weg; bitte sagen Sie den letzten Satz noch einmal.",
  refused: "Der Scheduler hat abgelehnt: {reason}",
  missing_no_text: "Es wurde nichts verstanden. Kommen Sie näher und versuchen Sie es noch einmal.",
  missing_job_failed: "Das konnte nicht übersetzt werden.",
  missing_late: "Das hat zu lange gedauert.",
  missing_JOB_CANCELLED: "Das wurde abgebrochen.",
  missing_NO_CAPABLE_NODE: "Gerade übersetzt kein Knoten diese Sprachen.",
  missing_ALL_CANDIDATES_FULL_OR_FAILED: "Alle Knoten sind beschäftigt. Versuchen Sie es gleich noch einmal.",
};
