// What the pages read by HTTP, as types: written by hand after protocol/ and domain/watching/picture.py. What sessions hear and
// say is in client.d.ts. Only the parts that a page reads are here. This file is for the type check; browsers never load it.

// The picture (domain/watching/picture.py)

export type Level = "notice" | "warning" | "critical";
/** detour: a page's own word for a pair that several jobs serve */
export type Room = "none" | "detour" | "full" | "low" | "half" | "wide";
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
  /** set by the page, of a pair that no node serves alone */
  detour?: DetourLook;
}

export interface DetourLook {
  src: string;
  tgt: string;
  rung: "split" | "pivot" | "text_only";
  pivot: string;
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
  /** absent in pictures of a release without rooms */
  rooms?: RoomsLook;
  /** absent in pictures of a release that does not look for them */
  detours?: DetourLook[];
  /** absent in pictures of a release that does not measure it */
  scaling?: ScalingLook;
}

export interface ScalingLook {
  is_settled: boolean;
  headroom: number;
  pairs: {
    src: string;
    tgt: string;
    arrivals_per_s: number;
    node_s_per_job: number | null;
    real_time_factor: number | null;
    waiting: number;
    load: number;
  }[];
}

export interface RoomsLook {
  rooms: number;
  members: number;
  guests: number;
  languages: Record<string, number>;
  lag_p50_ms: Record<string, number>;
  lag_p95_ms: Record<string, number>;
}

/** GET /v1/rooms (protocol/http_rooms.py) */
export interface RoomAbout {
  room_id: string;
  tenant: string;
  /** empty for those who may not operate */
  code: string;
  opened_at_ms: number;
  active_at_ms: number;
  is_locked: boolean;
  members: number;
  guests: number;
  languages: Record<string, number>;
  instances: string[];
}

export interface RoomPerson {
  session_id: string;
  language: string;
  src_lang: string;
  role: string;
  instance_id: string;
  joined_at_ms: number;
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
  private?: Record<string, Pick<PoolList, "pairs" | "wide">>;
  /** whose private pools serve the caller */
  tenant?: string;
}

// Who uses a page (protocol/http_access.py), and keys (protocol/http_keys.py)

export interface WhoAmI {
  kind: string;
  tenant: string;
  key_id: string;
  subject: string;
  role: string | null;
  scopes: string[];
  is_login: boolean;
  auth_mode: string;
  /** of a token for one room */
  room_code?: string;
  is_listener?: boolean;
}

export interface KeyLook {
  id: string;
  shown: string;
  kind: string;
  state: "live" | "expired" | "revoked";
  name: string;
  tenant: string;
  role: string | null;
  act_for: string[];
  origins: string[];
  pairs: string[];
  networks: string[];
  labels: Record<string, string>;
  node_id: string;
  max_slots: number;
  max_nodes: number;
  nodes_live_ms: number;
  needs_approval: boolean;
  is_ephemeral: boolean;
  is_private: boolean;
  enrolled_with: string;
  successor: string;
  created_ms: number;
  expires_ms: number;
  last_used_ms: number;
}

// Nodes that join (protocol/http_enrolment.py), and the audit log (protocol/http_audit.py)

export interface JoinedNode {
  node_id: string;
  credential_id: string;
  tenant: string;
  is_approved: boolean;
  is_ephemeral: boolean;
  is_private: boolean;
  labels: Record<string, string>;
  max_slots: number;
  enrolled_with: string;
  created_ms: number;
  expires_ms: number;
}

export interface AuditEntry {
  seq: number;
  at_ms: number;
  actor: { kind: string; key_id: string; tenant: string; address: string };
  action: string;
  object: string;
  outcome: string;
  request_id: string;
  values: Record<string, string | number | boolean>;
}
