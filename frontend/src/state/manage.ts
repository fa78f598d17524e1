/** The shapes of the admins' pages: what their routes answer, and what those pages know. No code; read by manage/. */

import type { Policy } from "./network";
import type { Me, Terms } from "./types";

export interface Host {
  id: string;
  name: string;
  version: string;
  /** It takes new machines. */
  schedulable: boolean;
  /** Its machines are being put to rest; none starts. */
  draining: boolean;
  reachable: boolean;
  last_seen_at: string | null;
  capabilities: { driver?: string; version?: string; accelerator?: string; memory_images?: boolean; isolation?: string; max_cpus?: number; why_not_kvm?: string };
  capacity: { cpus?: number; memory_mib?: number; disk_free_bytes?: number; used?: { cpus?: number; memory_mib?: number; machines?: number } };
  images: Record<string, string>;
  machines: number;
  strays: { id: string; since: string }[];
}

export interface Person extends Pick<Me, "quota" | "used"> {
  name: string;
  active: boolean;
  is_admin: boolean;
  has_password: boolean;
  groups: string[];
  created_at: string;
  last_sign_in_at: string | null;
  disk_used_bytes: number;
}

export interface Code { user: string; code: string; expires_at: string }

export type TermValue = number | null | Policy | string[];
export type TermsSet = Record<string, { value?: TermValue; upper_bound?: number | null }>;

export interface PolicySet { scope: string; terms: TermsSet; changed_at: string; changed_by: string | null }

export interface Group { name: string; people: number }

/** What would become of something, and when, if nothing happened from now on. */
export interface Going {
  kind: "workspace" | "checkpoint";
  id: string;
  name: string;
  workspace: string;
  owner: string;
  to: string;
  at: string;
  because: string;
  noticed: boolean;
}

/** A dry run: as it is set, and as it would be. */
export interface Run { draft: string; days: number; now: Going[]; then: Going[]; complete: boolean }

export interface AuditEntry {
  id: string;
  at: string;
  actor: { type: string; name: string; token_id?: string; token_name?: string } | null;
  address: string | null;
  kind: string;
  target: string | null;
  outcome: string;
  status: number;
  data: Record<string, unknown>;
}

/** A page of a list that the server cuts: its rows, the next page, the cursors up to this one. */
export interface Paged<T> { rows: T[] | null; next: string | null; cursors: string[]; query: Record<string, string> }

export interface ManageState {
  problem: string;
  busy: boolean;
  hosts: Host[] | null;
  people: Paged<Person>;
  /** The one made just now, until it is put away. */
  code: Code | null;
  policies: PolicySet[] | null;
  groups: Group[];
  scope: string;
  /** What is typed for each term, value and bound, as text. */
  typed: Record<string, string>;
  /** Of whom `scope` names, when that is a person: what holds and who said so. */
  effective: Terms | null;
  /** What holds where nobody has said anything. */
  builtIn: Record<string, TermValue>;
  wrong: Record<string, string>;
  run: Run | null;
  days: number;
  audit: Paged<AuditEntry>;
  /** How many entries were read for a file; null when none is being made. */
  exporting: number | null;
}

export type ManageDialog =
  | { kind: "manage"; what: "drain"; id: string }
  | { kind: "manage"; what: "new-person" }
  | { kind: "manage"; what: "quota" | "code" | "switch-off" | "admin"; id: string }
  | { kind: "manage"; what: "inherit"; id: string };
