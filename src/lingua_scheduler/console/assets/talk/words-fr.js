// French: what a person reads on their half of the page.

/** @type {import("./words.js").HalfWords} */
export default {
  hold: "Maintenez pour parler, ou touchez",
  hold_keys: "Maintenez pour parler, ou cliquez",
  cannot: "Impossible de parler pour l’instant",
  read_here: "Lisez et écoutez ici",
  opening: "Ouverture du micro …",
  listening: "J’écoute …",
  listening_tap: "J’écoute … touchez pour terminer",
  listening_tap_keys: "J’écoute … cliquez pour terminer",
  translating: "Traduction …",
  speaks: "Je parle",
  reads: "Je lis",
  to: "Traduire en",
  talk_in: "Parler en {language}",
  replay: "Réécouter",
  empty: "Ce que vous dites apparaît ici, avec sa traduction.",
  empty_listen: "Ce que dit l’autre personne apparaît ici dans votre langue.",
  empty_hint:
    "Maintenez le bouton pendant que vous parlez, ou touchez une fois pour commencer et une fois pour terminer.",
  empty_hint_keys:
    "Maintenez le bouton ou la barre d’espace pendant que vous parlez, ou appuyez une fois pour commencer et une fois pour terminer.",
  unserved: "Personne ne traduit de {source} vers {target} pour l’instant.",
  listen_only:
    "Pour l’instant, vous pouvez lire et écouter ici. La traduction de {source} vers {target} n’est pas encore disponible.",
  text_only: "{target} : texte seulement pour l’instant, pas de voix.",
  no_nodes:
    "Aucun nœud n’est encore connecté. Démarrez-en un sur cette machine : {command} (pour essayer sans moteurs vocaux : {command} --engine sim)",
  same: "Choisissez deux langues différentes.",
  needs_login: "Cette page demande une connexion. Connectez-vous au tableau de bord en tant qu'administrateur.",
  unreachable: "L’ordonnanceur ne répond pas. Est-il en marche ?",
  mic_insecure:
    "Le navigateur n’autorise le micro que sur les pages https ou localhost. Ouvrez cette page avec https:// (voir docs/talk.md) ou sur la machine elle-même.",
  mic_denied:
    "Le micro n’est pas autorisé. Autorisez-le pour cette page dans les réglages du navigateur, puis réessayez.",
  mic_none: "Aucun micro trouvé. Branchez-en un, puis réessayez.",
  mic_taken: "Un autre programme utilise le micro. Fermez-le, puis réessayez.",
  mic_failed: "Le micro n’a pas pu être ouvert. Rechargez la page et réessayez.",
  mic_ready: "Le micro est prêt : appuyez de nouveau et parlez.",
  no_sound: "Ce navigateur ne peut pas lire la voix de la traduction.",
  too_long: "La connexion a été coupée trop longtemps : arrêté. Ce que vous avez dit est gardé jusqu’à son retour.",
  forgotten: "Une demi-minute sans parole : arrêté.",
  lost: "La connexion a été coupée trop longtemps ; répétez la dernière phrase, s’il vous plaît.",
  refused: "L’ordonnanceur a refusé : {reason}",
  missing_no_text: "Rien n’a été compris. Rapprochez-vous et réessayez.",
  missing_job_failed: "Ceci n’a pas pu être traduit.",
  missing_late: "Cela a pris trop de temps.",
  missing_JOB_CANCELLED: "La traduction a été annulée.",
  missing_NO_CAPABLE_NODE: "Aucun nœud ne traduit ces langues pour l’instant.",
  missing_ALL_CANDIDATES_FULL_OR_FAILED: "Tous les nœuds sont occupés. Réessayez dans un instant.",
};
