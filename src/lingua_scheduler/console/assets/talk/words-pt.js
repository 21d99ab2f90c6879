// Portuguese: what a person reads on their half of the page.

/** @type {import("./words.js").HalfWords} */
export default {
  hold: "Segure para falar, ou toque",
  hold_keys: "Segure para falar, ou clique",
  cannot: "Agora não é possível falar",
  read_here: "Leia e ouça aqui",
  opening: "Abrindo o microfone …",
  listening: "Ouvindo …",
  listening_tap: "Ouvindo … toque para terminar",
  listening_tap_keys: "Ouvindo … clique para terminar",
  translating: "Traduzindo …",
  speaks: "Eu falo",
  reads: "Eu leio",
  to: "Traduzir para",
  talk_in: "Falar em {language}",
  replay: "Ouvir de novo",
  empty: "O que você disser aparece aqui, com a tradução.",
  empty_listen: "O que a outra pessoa disser aparece aqui no seu idioma.",
  empty_hint: "Segure o botão enquanto fala, ou toque uma vez para começar e outra para terminar.",
  empty_hint_keys:
    "Segure o botão ou a barra de espaço enquanto fala, ou pressione uma vez para começar e outra para terminar.",
  unserved: "No momento ninguém traduz de {source} para {target}.",
  listen_only:
    "Por enquanto você pode ler e ouvir aqui. A tradução de {source} para {target} ainda não está disponível.",
  text_only: "No momento há {target} por escrito, mas sem voz.",
  no_nodes:
    "Ainda não há nós conectados. Inicie um nesta máquina: {command} (para testar sem motores de voz: {command} --engine sim)",
  same: "Escolha dois idiomas diferentes.",
  needs_login: "Esta página requer login. Entre no painel como administrador.",
  unreachable: "O agendador não responde. Ele está em execução?",
  mic_insecure:
    "O navegador só libera o microfone em páginas https ou localhost. Abra esta página com https:// (veja docs/talk.md) ou na própria máquina.",
  mic_denied:
    "O microfone não foi permitido. Permita-o para esta página nas configurações do navegador e tente de novo.",
  mic_none: "Nenhum microfone encontrado. Conecte um e tente de novo.",
  mic_taken: "Outro programa está usando o microfone. Feche-o e tente de novo.",
  mic_failed: "Não foi possível abrir o microfone. Recarregue a página e tente de novo.",
  mic_ready: "O microfone está pronto: pressione de novo e fale.",
  no_sound: "Este navegador não consegue reproduzir a voz da tradução.",
  too_long: "A conexão ficou fora por muito tempo: parado. O que você disse fica guardado até ela voltar.",
  forgotten: "Meio minuto sem fala: parado.",
  lost: "A conexão ficou fora por muito tempo; repita a última frase, por favor.",
  refused: "O agendador recusou: {reason}",
  missing_no_text: "Não deu para entender. Chegue mais perto e tente de novo.",
  missing_job_failed: "Não foi possível traduzir isto.",
  missing_late: "Isto demorou demais.",
  missing_JOB_CANCELLED: "Isto foi cancelado.",
  missing_NO_CAPABLE_NODE: "No momento nenhum nó traduz estes idiomas.",
  missing_ALL_CANDIDATES_FULL_OR_FAILED: "Todos os nós estão ocupados. Tente de novo daqui a pouco.",
};
