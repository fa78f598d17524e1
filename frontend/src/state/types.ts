/**
 * The shapes everything on a page is made of: what the API answers, and the one State that views read.
 *
 * Imported by everybody, imports only shapes that live beside their own reduce. Names follow the public contract; a field that the contract calls
 * optional is optional here.
 */

import type { NetworkState } from "./network";
import type { Difference, PastState } from "./past";
import type { PathList, PickerState } from "./picker";
import type { SearchState } from "./search";
import type { Explorer } from "./file-tree";
import type { Uploads } from "./uploads";

import type { ManageDialog, ManageState } from "./manage";

export type VisibleState =
  | "creating" | "running" | "standby" | "stopped" | "failed" | "deleted"
  | "waking" | "parking" | "stopping" | "restoring" | "deleting";

export interface Workspace {
  id: string;
  name: string;
  state: VisibleState;
  state_reason: string | null;
  owner: string;
  /** Null for an admin who is no member. */
  role?: "viewer" | "operator" | "owner" | null;
  cpus: number;
  memory_mib: number;
  disk_gib: number;
  disk_used_bytes: number | null;
  created_at: string;
  last_activity_at: string | null;
  last_activity_kind: string | null;
  accelerator: string | null;
  image?: string;
  labels?: Record<string, string>;
  host?: string | null;
  /** What comes next by itself, and why it does not come yet. */
  next_transition?: { to: string; at: string; because: string } | null;
  awake_because?: Awake[];
  /** The checkpoint that the present disk descends from. */
  head_checkpoint?: string | null;
  forked_from?: { workspace: string; checkpoint: string } | null;
  /** Where a port of it is seen, with `{port}` in it. */
  preview_url_template?: string | null;
  approvals?: ApprovalRules;
  /** The real step of a start under way, where the server knows it. */
  stage?: string | null;
}

export interface Awake { kind: string; detail: string; until: string | null }

export interface Actor {
  type: "user" | "token" | "system";
  name: string;
}

export interface BerthEvent {
  seq: number;
  at: string;
  kind: string;
  actor: Actor;
  cause?: string | null;
  data: Record<string, unknown>;
}

export interface Checkpoint {
  id: string;
  name: string;
  comment: string;
  kind: "manual" | "auto" | "safety";
  state: "capturing" | "ready" | "failed";
  state_reason: string | null;
  actor: Actor;
  memory: boolean;
  /** A restore would resume it; else it starts over the same disk. */
  memory_usable: boolean;
  consistency: "clean" | "crash" | null;
  parent: string | null;
  created_at: string;
  disk_bytes: number | null;
  memory_bytes: number | null;
  pause_ms: number | null;
  expires_at: string | null;
}

/** Somebody wants the workspace awake until then; from the page and programs, or from inside. */
export interface Hold {
  id: string;
  reason: string;
  from: "api" | "guest";
  actor: Actor;
  expires_at: string;
}

/** An act of a token that waits for a member. */
export interface Approval {
  id: string;
  kind: "exec" | "restore" | "delete" | "network";
  actor: Actor;
  /** What is to be done: command, user, cwd, names of variables; a checkpoint; purge; name, address and port. */
  request: Record<string, unknown>;
  created_at: string;
  expires_at: string;
}

/** Which acts of tokens wait for a member. Empty: none. */
export interface ApprovalRules { exec?: string[]; restore?: boolean; delete?: boolean; timeout_s?: number }

export type Role = "viewer" | "operator" | "owner";

export interface Member {
  user: string;
  role: Role;
  added_at: string | null;
  added_by: string | null;
  /** Why an admin broke the glass; null for members. */
  reason: string | null;
  expires_at: string | null;
}

export interface Token {
  id: string;
  name: string;
  /** The beginning of its secret, by which one knows it again. */
  hint: string;
  scopes: string[];
  workspace_ids: string[] | null;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
}

export interface AccountState {
  status: "unknown" | "listed" | "failed";
  problem: string;
  tokens: Token[];
  /** The one made just now, with its secret, until it is put away. */
  made: { token: Token; secret: string } | null;
}

/** What going back to a checkpoint would undo: files that differ from it now. */
export interface Loss {
  checkpoint: string;
  added: number;
  modified: number;
  removed: number;
  /** The first of them. */
  files: Difference[];
  /** There are more than were counted. */
  more: boolean;
  /** What runs now and would end. */
  programs: string[];
}

export type QuotaKind = "workspaces" | "running" | "cpus" | "memory_mib" | "disk_gib" | "checkpoints";

export interface Me {
  name: string;
  quota: Record<QuotaKind, number | null>;
  used: Record<QuotaKind, number>;
  /** What all of it really takes on disks, the trash included. */
  disk_used_bytes?: number;
}

export type SortKey = "created_at" | "name" | "owner" | "last_activity_at" | "disk_gib";

/** What the home page asks for; it stands in the address of the page, too. */
export interface ListQuery {
  search: string;
  state: VisibleState | "";
  labels: [string, string][];
  /** Of an admin: not only what is theirs. */
  everybody: boolean;
  sort: SortKey;
  down: boolean;
}

/** The page of the list that is shown: the rows themselves are in `workspaces`. */
export interface Listing {
  query: ListQuery;
  problem: string;
  ids: string[];
  next: string | null;
  /** The cursors of the pages up to this one; the first has none. */
  cursors: string[];
}

/** What policy says for a person, by term. */
export interface Term { value: number | null; source: string; upper_bound: number | null; capped: boolean }
export type Terms = Record<string, Term>;

export type Outcome =
  | { kind: "exited"; code: number }
  | { kind: "signaled"; signal: string }
  | { kind: "timed_out" }
  | { kind: "killed"; by?: string }
  | { kind: "refused"; code: string }
  | { kind: "lost"; reason?: string };

export interface Exec {
  id: string;
  command: string | string[];
  state: "pending_approval" | "starting" | "running" | "ended";
  outcome: Outcome | null;
  tty?: boolean | { cols: number; rows: number } | null;
  started_at: string | null;
  ended_at: string | null;
  duration_ms: number | null;
  stdout?: string;
  stderr?: string;
  stdout_truncated?: boolean;
  stderr_truncated?: boolean;
  actor?: Actor;
  /** The exec of an earlier body that this one is, after a restore brought its memory back. */
  continued_from?: string | null;
  /** Of a terminal that is or was recorded; `until` is null while it goes on. */
  recording?: { by: string; since: string; until: string | null } | null;
}

export interface FileEntry {
  /** Lossless: bytes that are no UTF-8 stand as lone surrogates (api/path.ts). */
  path: string;
  path_encoded?: string;
  type: string;
  size: number;
  mode?: string;
  mtime?: string;
  target?: string;
}

/** What the server puts into the page: who looks, at what, and what a write needs. */
export interface PageData {
  page: "home" | "workspace" | "account" | "manage" | "signin";
  csrf: string;
  nonce: string;
  user: string;
  admin: boolean;
  workspace: string;
  /** Which of the admins' pages it is. */
  section: string;
  /** The server found no such workspace among those this person may look into. */
  missing: boolean;
  next: string;
  setup: boolean;
}

export type Theme = "system" | "light" | "dark";
export type Connection = "connecting" | "live" | "waiting";
/** Those that share one place beside the editor. */
export type Side = "activity" | "time" | "ports" | "network";
export type Pane = "files" | "editor" | "terminal" | Side;

export interface Notice {
  id: number;
  tone: "info" | "error";
  text: string;
}

export type Dialog =
  | { kind: "create" }
  | { kind: "confirm-delete"; id: string }
  | { kind: "confirm-stop"; id: string }
  | { kind: "confirm-restart"; id: string }
  | { kind: "close-file"; path: string }
  | TerminalDialog
  | { kind: "new-entry"; type: "file" | "directory"; parent: string }
  | { kind: "move"; paths: string[] }
  /** Something has the name already; `more`: the answer may be for those after it too. */
  | { kind: "exists"; name: string; folder: string; more: boolean; copies: boolean }
  | { kind: "remove"; paths: string[] }
  | { kind: "open-link"; url: string }
  | { kind: "compare"; path: string }
  | { kind: "share"; port: number }
  | { kind: "emulated" }
  | { kind: "shortcuts" }
  | { kind: "members" }
  | { kind: "leave"; user: string }
  | { kind: "approval-rules" }
  | { kind: "break-glass" }
  | { kind: "new-token" }
  | { kind: "revoke-token"; token: string }
  | ManageDialog
  | TimeDialog;

export type TerminalDialog =
  | { kind: "close-terminal"; id: string }
  | { kind: "rename-terminal"; id: string }
  /** The text itself waits in the terminal's session. */
  | { kind: "paste"; id: string; lines: number; begins: string }
  | { kind: "play"; id: string; title: string; source: "recording" | "kept" };

export type TimeDialog =
  | { kind: "checkpoint" }
  | { kind: "keep-awake" }
  | { kind: "restore"; checkpoint: string }
  | { kind: "browse"; checkpoint: string }
  | { kind: "compare-points" }
  | { kind: "fork"; checkpoint: string }
  | { kind: "rename-checkpoint"; checkpoint: string }
  | { kind: "delete-checkpoint"; checkpoint: string };

/** What a step of Activity is about; what one filters by. */
export type Family = "exec" | "file" | "time" | "lifecycle" | "approval" | "other";

export interface ActivityState {
  /** Whose steps ("token:ci-bot"), and of which family; empty is all. */
  actor: string;
  family: Family | "";
  /** How many rows are drawn. */
  shown: number;
  /** Whether the server has older ones than the page. */
  older: "unknown" | "reading" | "none";
  /** Runs that a person opened (true) or folded (false) by hand. */
  runs: Record<string, boolean>;
}

/** A stretch of what an exec said: the bytes from `from` up to `to`, of those from `start` that are kept. */
export interface OutputStretch { stream: "stdout" | "stderr"; start: number; from: number; to: number; bytes: Uint8Array }

export interface DiffLine { sign: " " | "+" | "-" | "…"; text: string }

/** What is shown of an opened step. */
export type StepDetail =
  | { kind: "loading" }
  | { kind: "failed"; problem: string }
  | { kind: "output"; streams: OutputStretch[]; ended: boolean; truncated: boolean; reading: boolean }
  /** `notes` say what is compared with what, or why nothing is; without `diff` the text is a preview. */
  | { kind: "file"; notes: string[]; diff: DiffLine[] | null; text: string };

export interface TimeState {
  status: "unknown" | "listed" | "failed";
  problem: string;
  /** Newest first. */
  checkpoints: Checkpoint[];
  more: boolean;
  holds: Hold[];
  loss: Loss | null;
  /** The newest restore whose Undo was put away: the number of its event. */
  undoDismissed: number;
}

/** Something listens there in the guest. */
export interface Port {
  port: number;
  address: string;
  /** A preview, which asks 127.0.0.1, gets there. */
  reachable: boolean;
  process: string | null;
  pid: number | null;
  user: string | null;
}

export type Visibility = "private" | "signed_in" | "public";

export interface Share {
  port: number;
  visibility: Visibility;
  url: string;
  /** With its secret, once, to whoever made it. */
  link: string | null;
  expires_at: string | null;
  actor: Actor;
}

export interface PortsState {
  status: "unknown" | "listed" | "asleep" | "failed";
  problem: string;
  ports: Port[];
  shares: Share[];
  /** Links with a secret, of shares made by this very page, by port. */
  links: Record<number, string>;
  /** The port whose preview stands in the place of the editor; 0 is none. */
  preview: number;
}

/** What a workspace uses at a moment; a sleeping one has a history and no now. */
export interface Figures { at: string; cpu_percent: number | null; memory_used_bytes: number; memory_total_bytes: number }

export interface Metrics { now: Figures | null; reason: string | null; interval_s: number; history: Figures[] }

export interface TreeFolder {
  open: boolean;
  status: "unknown" | "listing" | "listed" | "failed";
  entries: FileEntry[];
  more: boolean;
  problem: string;
}

export interface EditorTab {
  path: string;
  status: "opening" | "open" | "refused";
  /** A text to edit, a picture to look at, or the first bytes of something else. */
  shows: "text" | "image" | "hex";
  /** Why it cannot be shown, or why it is read-only. */
  reason: string;
  readOnly: boolean;
  /** Read from the disk of a sleeping workspace: read-only until it runs and the file is read anew. */
  fromDisk: boolean;
  dirty: boolean;
  saving: boolean;
  problem: string;
  /** Somebody else's version that is not the one opened here. */
  conflict: { by: string; at: string } | null;
  /** It was deleted or moved away underneath. */
  gone: boolean;
}

export type TerminalStatus = "connecting" | "live" | "waiting" | "ended";

export interface TerminalTab {
  id: string;
  title: string;
  status: TerminalStatus;
  outcome: Outcome | null;
  /** Who holds the keyboard; empty when nobody does. */
  holder: string;
  /** It is this very page. */
  mine: boolean;
  /** A name that a person gave it here; else the title that its program sets. */
  name: string;
  /** Who started it; empty for oneself. Watching is the default for what somebody else started. */
  starter: string;
  mayTake: boolean;
  /** This page has asked for the keyboard and waits for an answer. */
  asked: boolean;
  declinedBy: string;
  /** Who asks for it. */
  asks: string[];
  present: string[];
  recordedBy: string;
  /** There is a recording to play. */
  recorded: boolean;
  rang: boolean;
}

/** How the terminals of one tab share its place: one alone, or two trees side by side or one over the other. */
export type PaneTree = string | PaneSplit;
export interface PaneSplit { way: "row" | "column"; share: number; a: PaneTree; b: PaneTree }

/** One tab. Its id is that of the terminal it began with. */
export interface TerminalGroup { id: string; tree: PaneTree }

export interface State {
  page: PageData;
  now: number;
  theme: Theme;
  connection: Connection;
  workspaces: Record<string, Workspace>;
  loaded: boolean;
  missing: boolean;
  pending: Record<string, string>;
  notices: Notice[];
  dialog: Dialog | null;
  dialogProblem: string;
  dialogBusy: boolean;
  /** What the server said of single fields. */
  dialogErrors: Record<string, string>;
  /** What stands in the fields of an open dialog that says something about it while one types. */
  draft: Record<string, string>;
  events: BerthEvent[];
  lastSeq: number;
  /** Opened steps of Activity, by their key. */
  expanded: Record<string, StepDetail>;
  activity: ActivityState;
  home: string;
  tree: Record<string, TreeFolder>;
  showHidden: boolean;
  picker: PickerState | null;
  paths: PathList;
  search: SearchState;
  explorer: Explorer;
  uploads: Uploads | null;
  tabs: EditorTab[];
  activePath: string;
  terminals: TerminalTab[];
  terminalsKnown: boolean;
  terminalGroups: TerminalGroup[];
  /** Running ones that are not open here, and the newest of those that ended; newest first. */
  otherTerminals: Exec[];
  /** The terminal whose search bar is open; empty for none. */
  finding: string;
  found: { at: number; of: number };
  activeTerminal: string;
  opening: boolean;
  pane: Pane;
  side: Side;
  time: TimeState;
  past: PastState;
  ports: PortsState;
  network: NetworkState;
  metrics: Metrics | null;
  /** The last hour of those in the list that run, by workspace. */
  hours: Record<string, Metrics>;
  /** Null until they were read. */
  members: Member[] | null;
  account: AccountState;
  /** Those that wait now, newest first. */
  approvals: Approval[];
  me: Me | null;
  listing: Listing;
  /** Null until they were read. */
  images: string[] | null;
  terms: Terms | null;
  /** The admins' pages; null on all others. */
  manage: ManageState | null;
  layout: Layout;
}

/** Sizes in CSS pixels of what a person may drag. */
export interface Layout {
  files: number;
  activity: number;
  terminal: number;
}
