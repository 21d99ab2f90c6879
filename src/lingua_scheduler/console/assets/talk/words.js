// What the page says, in English and Chinese.

const WORDS = {
  en: {
    title: "Talk",
    hold: "Hold to talk, or tap",
    cannot: "You cannot talk right now",
    opening: "Opening the microphone …",
    listening: "Listening …",
    listening_tap: "Listening … tap to end",
    translating: "Translating …",
    speaks: "I speak",
    to: "Translate to",
    talk_in: "Talk in {language}",
    swap: "Swap languages",
    sound_on: "Sound is on",
    sound_off: "Sound is off",
    text_size: "Text size",
    theme: "Light or dark",
    layout: "One person or face to face",
    interface: "中文界面",
    replay: "Play again",
    clear: "Clear the conversation",
    empty: "What you say appears here, with its translation.",
    empty_hint: "Hold the button while you talk, or tap it once to start and once to end. The space bar works too.",
    state_connecting: "Connecting",
    state_open: "Connected",
    state_away: "Connection lost, trying again",
    state_paused: "Busy, one moment",
    state_refused: "Refused",
    state_idle: "Ready",
    state_unserved: "No languages yet",
    unserved: "Nobody translates {source} to {target} right now.",
    text_only: "{target} can be written but not spoken by anybody right now.",
    no_nodes:
      "No node is connected yet. Start one on this machine: lingua node (to try it without speech engines: lingua node --engine sim)",
    same: "Choose two different languages.",
    unreachable: "The scheduler does not answer. Is it running?",
    mic_insecure:
      "The browser gives a microphone only to pages on https or localhost. Open this page with https:// (see docs/talk.md), or on the machine itself.",
    mic_denied: "The microphone is not allowed. Allow it for this page in the browser's address bar, then press again.",
    mic_none: "No microphone was found. Connect one, then press again.",
    mic_taken: "The microphone is used by another program. Close that, then press again.",
    mic_failed: "The microphone could not be opened. Reload the page and try again.",
    mic_ready: "The microphone is ready: press again and talk.",
    no_sound: "This browser cannot play the translation's speech.",
    too_long: "The connection has been away for too long: stopped. What you said so far is kept for when it is back.",
    forgotten: "Nobody spoke for half a minute: stopped.",
    lost: "The connection was away too long; say the last sentence again, please.",
    refused: "The scheduler refused: {reason}",
    missing_no_text: "Nothing was understood. Come closer and try again.",
    missing_job_failed: "This could not be translated.",
    missing_late: "This took too long.",
    missing_NO_CAPABLE_NODE: "Nobody translates these languages right now.",
    missing_ALL_CANDIDATES_FULL_OR_FAILED: "Everybody is busy. Try again in a moment.",
  },
  zh: {
    title: "对话翻译",
    hold: "按住说话，或点一下",
    cannot: "现在不能说话",
    opening: "正在打开麦克风…",
    listening: "正在听…",
    listening_tap: "正在听…再点一下结束",
    translating: "正在翻译…",
    speaks: "我说",
    to: "翻译成",
    talk_in: "说{language}",
    swap: "交换语言",
    sound_on: "声音已开",
    sound_off: "声音已关",
    text_size: "文字大小",
    theme: "浅色或深色",
    layout: "单人或面对面",
    interface: "English interface",
    replay: "再听一次",
    clear: "清空对话",
    empty: "您说的话和译文会显示在这里。",
    empty_hint: "按住按钮说话，或点一下开始、再点一下结束。也可以按空格键。",
    state_connecting: "正在连接",
    state_open: "已连接",
    state_away: "连接中断，正在重试",
    state_paused: "繁忙，请稍候",
    state_refused: "被拒绝",
    state_idle: "就绪",
    state_unserved: "还没有语言",
    unserved: "现在没有节点把{source}翻译成{target}。",
    text_only: "现在{target}只能译成文字，没有语音。",
    no_nodes: "还没有节点连接。可以在本机启动一个：lingua node（没有语音引擎时试用：lingua node --engine sim）",
    same: "请选择两种不同的语言。",
    unreachable: "调度器没有响应。它在运行吗？",
    mic_insecure: "浏览器只允许 https 或 localhost 页面使用麦克风。请用 https:// 打开本页（见 docs/talk.md），或在本机打开。",
    mic_denied: "麦克风未获允许。请在浏览器地址栏里允许本页使用麦克风，然后再按一次。",
    mic_none: "没有找到麦克风。请接上麦克风，然后再按一次。",
    mic_taken: "麦克风正被其他程序使用。请关闭那个程序，然后再按一次。",
    mic_failed: "无法打开麦克风。请重新加载页面再试。",
    mic_ready: "麦克风已就绪：请再按一次并说话。",
    no_sound: "此浏览器无法播放译文语音。",
    too_long: "连接中断太久，已停止。已说的内容会保留到连接恢复。",
    forgotten: "半分钟没有人说话，已停止。",
    lost: "连接中断太久，请把最后一句再说一遍。",
    refused: "调度器拒绝：{reason}",
    missing_no_text: "没有听清。请靠近一些再试。",
    missing_job_failed: "这句话未能翻译。",
    missing_late: "这句话等待太久。",
    missing_NO_CAPABLE_NODE: "现在没有节点翻译这两种语言。",
    missing_ALL_CANDIDATES_FULL_OR_FAILED: "所有节点都忙。请稍后再试。",
  },
};

export const INTERFACES = Object.keys(WORDS);

/** `language` may be any code: one the page does not speak is answered in `otherwise`. */
export function spoken(language, otherwise) {
  const base = language.split("-")[0];
  return base in WORDS ? base : otherwise;
}

export function say(language, key, values = {}) {
  return WORDS[language][key].replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

export function has(language, key) {
  return key in WORDS[language];
}

/** A language's name in another language; its code where the browser knows none. */
export function nameOf(code, inLanguage) {
  try {
    const name = new Intl.DisplayNames([inLanguage], { type: "language" }).of(code) ?? code;
    return name.charAt(0).toLocaleUpperCase(inLanguage) + name.slice(1);
  } catch {
    return code;
  }
}
