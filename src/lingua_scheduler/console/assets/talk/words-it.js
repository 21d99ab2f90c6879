// Italian: what a person reads on their half of the page.

/** @type {import("./words.js").HalfWords} */
export default {
  hold: "Tieni premuto per parlare, o tocca",
  hold_keys: "Tieni premuto per parlare, o fai clic",
  cannot: "Ora non si può parlare",
  read_here: "Leggi e ascolta qui",
  opening: "Apertura del microfono …",
  listening: "In ascolto …",
  listening_tap: "In ascolto … tocca per finire",
  listening_tap_keys: "In ascolto … fai clic per finire",
  translating: "Traduzione …",
  speaks: "Io parlo",
  reads: "Io leggo",
  to: "Traduci in",
  talk_in: "Parla in {language}",
  replay: "Riascolta",
  empty: "Quello che dici appare qui, con la traduzione.",
  empty_listen: "Quello che dice l’altra persona appare qui nella tua lingua.",
  empty_hint: "Tieni premuto il pulsante mentre parli, o tocca una volta per iniziare e una per finire.",
  empty_hint_keys:
    "Tieni premuto il pulsante o la barra spaziatrice mentre parli, o premi una volta per iniziare e una per finire.",
  unserved: "Al momento nessuno traduce da {source} a {target}.",
  listen_only: "Per ora qui puoi leggere e ascoltare. La traduzione da {source} a {target} non è ancora disponibile.",
  text_only: "Al momento {target} è disponibile solo come testo, senza voce.",
  no_nodes:
    "Nessun nodo è ancora connesso. Avviane uno su questa macchina: {command} (per provare senza motori vocali: {command} --engine sim)",
  same: "Scegli due lingue diverse.",
  unreachable: "Lo scheduler non risponde. È in esecuzione?",
  mic_insecure:
    "Il browser concede il microfono solo alle pagine https o localhost. Apri questa pagina con https:// (vedi docs/talk.md) o sulla macchina stessa.",
  mic_denied:
    "Il microfono non è consentito. Consentilo per questa pagina nelle impostazioni del browser, poi riprova.",
  mic_none: "Nessun microfono trovato. Collegane uno, poi riprova.",
  mic_taken: "Un altro programma sta usando il microfono. Chiudilo, poi riprova.",
  mic_failed: "Impossibile aprire il microfono. Ricarica la pagina e riprova.",
  mic_ready: "Il microfono è pronto: premi di nuovo e parla.",
  no_sound: "Questo browser non può riprodurre la voce della traduzione.",
  too_long: "La connessione è mancata troppo a lungo: fermato. Quello che hai detto resta salvato finché torna.",
  forgotten: "Mezzo minuto senza voce: fermato.",
  lost: "La connessione è mancata troppo a lungo; ripeti l’ultima frase, per favore.",
  refused: "Lo scheduler ha rifiutato: {reason}",
  missing_no_text: "Non si è capito nulla. Avvicinati e riprova.",
  missing_job_failed: "Non è stato possibile tradurre.",
  missing_late: "Ci è voluto troppo tempo.",
  missing_NO_CAPABLE_NODE: "Al momento nessun nodo traduce queste lingue.",
  missing_ALL_CANDIDATES_FULL_OR_FAILED: "Tutti i nodi sono occupati. Riprova tra poco.",
};
