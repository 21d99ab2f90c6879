// What the pages hear and say, as types: written by hand after protocol/ and domain/watching/picture.py.
// Only the parts that a page reads are here. This file is for the type check; browsers never load it.

// Scheduler → client (protocol/session.py)

export interface SessionInitAck {
  type: "session_init_ack";
  session_id: string;
  use_binary_frame: boolean;
  resume_token?: string | null;
  resumed?: boolean;
  next_seq?: number | null;
  next_utterance_index?: number | null;
  unserved?: string | null;
}

export interface TranslationResult {
  type: "translation_result";
  utterance_index: number;
  trace_id: string;
  group_id?: string | null;
  text_asr: string;
  text_translated: string;
  tts_audio: string;
  tts_format: string;
}

export interface MissingResult {
  type: "missing_result";
  utterance_index: number;
  reason: string;
  code?: string | null;
  detail?: string | null;
}

export interface AsrPartial {
  type: "asr_partial";
  utterance_index: number;
  text: string;
}

export interface UiEvent {
  type: "ui_event";
  utterance_index: number;
  event: string;
  status: string;
  error_code?: string | null;
}

export interface Backpressure {
  type: "backpressure";
  resume_after_ms: number;
}

export interface SessionCloseAck {
  type: "session_close_ack";
}

export interface ErrorMessage {
  type: "error";
  code: string;
  message: string;
}

export type Outcome = TranslationResult | MissingResult;
export type SessionMessage =
  | SessionInitAck
  | Outcome
  | AsrPartial
  | UiEvent
  | Backpressure
  | SessionCloseAck
  | ErrorMessage;

// Client → scheduler (protocol/session.py)

export interface SessionInit {
  type: "session_init";
  client_version: string;
  platform: string;
  src_lang: string;
  tgt_lang: string;
  enable_streaming_asr: boolean;
  partial_update_interval_ms: number;
  use_binary_frame: boolean;
  resume_token?: string | null;
  last_utterance_index?: number;
}

export type SessionSignal =
  | { type: "client_heartbeat"; session_id: string; timestamp: number }
  | { type: "session_close"; session_id: string; reason: string }
  | Playback;

export interface Playback {
  type: "tts_started" | "tts_play_ended";
  session_id: string;
  trace_id: string;
  group_id?: string | null;
  ts_start_ms?: number;
  ts_end_ms?: number;
}

// The picture (domain/watching/picture.py)

export type Level = "notice" | "warning" | "critical";
export type Room = "none" | "full" | "low" | "half" | "wide";
export type Values = Record<string, string | number>;

export interface NodeLook {
  node_id: string;
  instance_id: string;
  state: string;
  shard: number;
  max_jobs: number;
  held: number;
  free: number | null;
  seen_at_ms: number;
  alive_until_ms: number;
  quarantined_until_ms: number;
  unavailable: string[];
  speech: string[];
  text: string[];
  services: string[];
  version: string;
  platform: string;
  cpu: number | null;
  memory: number | null;
  gpu: number | null;
  wide: string;
  /** null: it is well */
  level: Level | null;
}

export interface PairLook {
  src: string;
  tgt: string;
  nodes: number;
  slots: number;
  free: number;
  text_nodes: number;
  hangs_on: string;
  room: Room;
  level: Level | null;
}

export interface WideLook {
  name: string;
  sources: string[];
  text: string[];
  speech: string[];
  translations: Record<string, string[]> | null;
  pairs: number;
  nodes: number;
  slots: number;
  free: number;
  text_nodes: number;
  hangs_on: string;
  room: Room;
  level: Level | null;
}

export interface InstanceLook {
  instance_id: string;
  is_alive: boolean;
  is_leader: boolean;
  has_left: boolean;
  version: string;
  address: string;
  started_at_ms: number;
  silent_ms: number;
  inbox_letters: number;
  inbox_pending: number;
  dead_letters: number;
  nodes: number;
  sessions: number;
  jobs_waiting: number;
}

export interface JobLook {
  job_id: string;
  state: string;
  src: string;
  tgt: string;
  node_id: string;
  attempts: number;
  reason: string;
  ended_at_ms: number;
  took_ms: number;
  /** Shortened; not there in what a release before tells. */
  session_id?: string;
  utterance_index?: number;
}

export interface FailedJob {
  at_ms: number;
  /** Empty for a job that got no record. */
  job_id: string;
  session_id: string;
  utterance_index: number;
  src: string;
  tgt: string;
  code: string;
  reason: string;
  node_id: string;
  attempts: number;
  took_ms: number;
  instance_id: string;
  /** The customer, if the client named one. */
  tenant_id: string;
  /** Above 1: a summary of failures that were only counted. */
  count: number;
}

export interface NodeLately {
  done: number;
  failed: number;
  failed_percent: number | null;
  mean_ms: number | null;
  slowest_ms: number | null;
  real_time_factor: number | null;
  errors: { at_ms: number; reason: string; job_id: string }[];
}

export interface Moment {
  at_ms: number;
  done_per_s: number;
  no_text_per_s: number;
  failed_per_s: number;
  cancelled_per_s: number;
  retries_per_s: number;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
  sessions: number;
  jobs_waiting: number;
  slots_taken: number;
  slots_total: number;
}

export interface Alarm {
  code: string;
  level: Level;
  subject: string;
  since_ms: number;
  text: string;
  values: Values;
  /** what people did about it; 0 is nothing */
  acknowledged_at_ms: number;
  silenced_until_ms: number;
  handled_by: string;
  /** when it first became critical after it was less; 0 is never */
  worse_since_ms: number;
}

export interface Happening {
  at_ms: number;
  kind: string;
  level: Level;
  subject: string;
  text: string;
  values: Values;
}

export interface FleetVerdict {
  level: Level | null;
  code: string;
  subject: string;
  more: number;
  text: string;
}

export interface Picture {
  serial: number;
  at_ms: number;
  is_stale: boolean;
  made_by: string;
  release: string;
  redis_version: string;
  now: Moment;
  jobs_ended: Record<string, number>;
  session_languages: Record<string, number>;
  nodes: NodeLook[];
  pairs: PairLook[];
  wide?: WideLook[];
  instances: InstanceLook[];
  leader: string | null;
  map_version: number;
  map_made_at_ms: number;
  dead_letters: number;
  failures: JobLook[];
  slow: JobLook[];
  alarms: Alarm[];
  /** null in pictures of a release that does not judge */
  verdict: FleetVerdict | null;
  needs_look: { nodes: string[]; more: number } | null;
}

/** A picture without its long lists, which the dashboard keeps as maps. */
export type Frame = Omit<Picture, "nodes" | "pairs" | "wide">;

// The stream (GET /v1/watch): a whole picture, then changes (domain/watching/changes.py)

export interface PictureMessage {
  picture: Picture;
  history: Moment[];
  events: Happening[];
}

/** held, free, seen_at_ms, cpu, memory, gpu */
export type NodeLoad = [number, number | null, number, number | null, number | null, number | null];
/** nodes, slots, free, text_nodes, hangs_on */
export type WideLoad = [number, number, number, number, string];

export interface Change extends Partial<Omit<Frame, "serial" | "at_ms" | "is_stale" | "now">> {
  serial: number;
  at_ms: number;
  is_stale: boolean;
  now: Moment;
  nodes?: Record<string, NodeLook | null>;
  loads?: Record<string, NodeLoad>;
  pairs?: Record<string, PairLook | null>;
  wide?: Record<string, WideLook | null>;
  wide_loads?: Record<string, WideLoad>;
  events?: Happening[];
}

// HTTP answers (protocol/http.py, http_jobs.py, http_instances.py)

export interface JobView {
  job_id: string;
  state: string;
  attempt: number;
  node_id: string;
  src_lang: string;
  tgt_lang: string;
  session_id: string;
  utterance_index: number;
  owner: string;
  reason: string;
  detail: string;
  times_ms: Record<string, number>;
  history: { state: string; at_ms: number; attempt: number; node_id: string; reason: string }[];
}

export interface Explanation {
  headline: string;
  looked_at_ms: number;
  counts: Record<string, number>;
  candidates: { node_id: string; verdict: string; detail: string }[];
}

export interface JobExplanation {
  headline: string;
  then: Explanation | null;
  now: Explanation | null;
}

export interface DeadLetter {
  letter_id: string;
  instance_id: string;
  kind: string;
  sender: string;
  subject: string;
  deliveries: number;
  reason: string;
  buried_at_ms: number;
}

export type WidePool = Pick<WideLook, "name" | "sources" | "text" | "speech" | "translations" | "nodes">;

export interface PoolList {
  pairs?: Record<string, { speech?: number; text?: number }>;
  wide?: WidePool[];
}

// Who uses a page (protocol/http_access.py), and keys (protocol/http_keys.py)

export interface WhoAmI {
  kind: string;
  tenant: string;
  key_id: string;
  role: string | null;
  scopes: string[];
  is_login: boolean;
  auth_mode: string;
}

export interface KeyLook {
  id: string;
  shown: string;
  kind: string;
  state: "live" | "expired" | "revoked";
  name: string;
  tenant: string;
  role: string | null;
  node_id: string;
  created_ms: number;
  expires_ms: number;
  last_used_ms: number;
}
