// Spanish: what a person reads on their half of the page.

/** @type {import("./words.js").HalfWords} */
export default {
  hold: "Mantén pulsado para hablar, o toca",
  hold_keys: "Mantén pulsado para hablar, o haz clic",
  cannot: "Ahora no se puede hablar",
  read_here: "Lee y escucha aquí",
  opening: "Abriendo el micrófono …",
  listening: "Escuchando …",
  listening_tap: "Escuchando … toca para terminar",
  listening_tap_keys: "Escuchando … haz clic para terminar",
  translating: "Traduciendo …",
  speaks: "Yo hablo",
  reads: "Yo leo",
  to: "Traducir a",
  talk_in: "Hablar en {language}",
  replay: "Oír de nuevo",
  empty: "Lo que digas aparece aquí, con su traducción.",
  empty_listen: "Lo que diga la otra persona aparece aquí en tu idioma.",
  empty_hint: "Mantén pulsado el botón mientras hablas, o toca una vez para empezar y otra para terminar.",
  empty_hint_keys:
    "Mantén pulsado el botón o la barra espaciadora mientras hablas, o pulsa una vez para empezar y otra para terminar.",
  unserved: "Ahora mismo nadie traduce de {source} a {target}.",
  listen_only: "Por ahora puedes leer y escuchar aquí. La traducción de {source} a {target} aún no está disponible.",
  text_only: "Ahora mismo hay {target} por escrito, pero sin voz.",
  no_nodes:
    "Todavía no hay nodos conectados. Inicia uno en esta máquina: {command} (para probar sin motores de voz: {command} --engine sim)",
  same: "Elige dos idiomas distintos.",
  unreachable: "El planificador no responde. ¿Está en marcha?",
  mic_insecure:
    "El navegador solo permite el micrófono en páginas https o localhost. Abre esta página con https:// (véase docs/talk.md) o en la propia máquina.",
  mic_denied:
    "El micrófono no está permitido. Permítelo para esta página en los ajustes del navegador e inténtalo de nuevo.",
  mic_none: "No se encontró ningún micrófono. Conecta uno e inténtalo de nuevo.",
  mic_taken: "Otro programa usa el micrófono. Ciérralo e inténtalo de nuevo.",
  mic_failed: "No se pudo abrir el micrófono. Recarga la página e inténtalo de nuevo.",
  mic_ready: "El micrófono está listo: pulsa de nuevo y habla.",
  no_sound: "Este navegador no puede reproducir la voz de la traducción.",
  too_long: "La conexión se perdió demasiado tiempo: detenido. Lo que has dicho se guarda hasta que vuelva.",
  forgotten: "Medio minuto sin voz: detenido.",
  lost: "La conexión se perdió demasiado tiempo; repite la última frase, por favor.",
  refused: "El planificador lo rechazó: {reason}",
  missing_no_text: "No se entendió nada. Acércate e inténtalo de nuevo.",
  missing_job_failed: "Esto no se pudo traducir.",
  missing_late: "Esto tardó demasiado.",
  missing_NO_CAPABLE_NODE: "Ahora mismo ningún nodo traduce estos idiomas.",
  missing_ALL_CANDIDATES_FULL_OR_FAILED: "Todos los nodos están ocupados. Inténtalo dentro de un momento.",
};
