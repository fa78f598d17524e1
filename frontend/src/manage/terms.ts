/**
 * The terms of policy as a person reads and types them, and what a dry run adds to what holds now. Pure; called by the
 * views of manage/ and tested without a page.
 *
 * Nothing typed is inherited. Times are typed as "15 min", "7 days", "never"; counts as "10" or "no limit"; what machines
 * may reach as "nothing", "anything" or "*.example.org, 203.0.113.0/24:443".
 */

import type { Going, PolicySet, TermsSet, TermValue } from "../state/manage";
import { policyOf, policyWords } from "../state/network";
import { span } from "../state/words";

export type TermKind = "time" | "count" | "flag" | "policy" | "bound" | "ranges";
/** These have no bound of their own. */
export const unbounded = new Set<TermKind>(["flag", "policy", "bound", "ranges"]);
export interface TermWords { name: string; label: string; hint: string; kind: TermKind }

const term = (name: string, kind: TermKind, label: string, hint: string): TermWords => ({ name, kind, label, hint });

/** Every term of the contract, in the order in which they take hold. */
export const families: [string, TermWords[]][] = [
  ["Rest", [
    term("standby_after_s", "time", "To standby when idle", "Nothing ran, nobody typed, nothing holds it"),
    term("stop_after_s", "time", "Standby to stopped", "Its memory is let go, its disk stays"),
    term("max_hold_s", "time", "Longest hold", "How long anything may keep one awake"),
  ]],
  ["Retention", [
    term("trash_after_s", "time", "Stopped to trash", "Unused for so long"),
    term("purge_after_s", "time", "Trash to gone", "Can be brought back until then"),
    term("notice_s", "time", "Notice before", "Owners are told so long before anything is removed"),
  ]],
  ["Checkpoints", [
    term("auto_checkpoints", "flag", "Automatic checkpoints", "Before what a program does, and by the clock"),
    term("auto_checkpoint_interval_s", "time", "By the clock", "At most one in so long"),
    term("checkpoint_keep_last", "count", "Newest kept", "Of each kind, whatever their age"),
    term("checkpoint_expiry_s", "time", "Others end after", "Unless something needs them"),
  ]],
  ["Quotas", [
    term("workspaces", "count", "Workspaces", "All but the trash"),
    term("running", "count", "Running at once", ""),
    term("cpus", "count", "CPUs", "Of those that run"),
    term("memory_mib", "count", "Memory, MiB", "Of those that run"),
    term("disk_gib", "count", "Disk, GiB", "As promised, with what checkpoints hold"),
    term("checkpoints", "count", "Checkpoints", ""),
  ]],
  ["Network", [
    term("network_default", "policy", "New ones may reach", "nothing, anything, or names and ranges"),
    term("network_bound", "bound", "Any may reach at most", "Whatever a workspace’s own rules say"),
    term("network_private", "ranges", "Private ranges open to rules", "All others never are"),
    term("network_connections", "count", "Connections at once", "Of each workspace"),
    term("network_bytes_per_s", "count", "Bytes a second", "Of each workspace, both ways together"),
    term("network_dns_per_s", "count", "Name questions a second", "Of each workspace"),
  ]],
  ["Audit", [term("audit_keep_s", "time", "Audit is kept", "For the whole instance; set for everybody only")]],
];
export const allTerms: TermWords[] = families.flatMap(([, terms]) => terms);
export const ofInstance = new Set(["audit_keep_s"]);
const endless = new Set(["notice_s", "max_hold_s"]);

/** A term's number in words. */
export function termWords({ kind, name }: TermWords, value: TermValue): string {
  if (Array.isArray(value)) return value.join(", ") || "none";
  if (value !== null && typeof value === "object") return policyWords(value);
  if (kind === "bound") return "anything";
  if (kind === "flag") return value ? "on" : "off";
  if (value === null) return kind === "time" && !endless.has(name) ? "never" : "no limit";
  if (kind === "time") return value === 0 && !endless.has(name) ? "never" : span(value);
  return String(value);
}

const units: Record<string, number> = { s: 1, sec: 1, second: 1, min: 60, m: 60, minute: 60, h: 3600, hour: 3600, d: 86400, day: 86400, week: 604800, month: 2592000, year: 31536000 };

/** What somebody typed: a number, null for never or no limit, undefined for nothing (inherited). Throws words. */
export function typedTerm(kind: TermKind, typed: string): TermValue | undefined {
  const text = typed.trim().toLowerCase();
  if (text === "") return undefined;
  if (kind === "policy") return policyOf(typed);
  if (kind === "bound") return text === "anything" || text === "no bound" ? null : policyOf(typed);
  if (kind === "ranges") return text === "none" ? [] : text.split(/[\s,;]+/);
  if (["never", "no limit", "none", "unlimited"].includes(text)) return kind === "flag" ? 0 : null;
  if (kind === "flag") return flag(text);
  const found = /^(\d{1,12})\s*([a-z]*?)s?$/.exec(text);
  const unit = found?.[2] ? units[found[2]] : 1;
  if (!found || unit === undefined || (kind === "count" && found[2])) throw new Error(kind === "time" ? "Write it like 15 min, 12 h, 7 days, or never." : "A whole number, or no limit.");
  return Number(found[1]) * unit;
}

function flag(text: string): number {
  if (["on", "yes", "1"].includes(text)) return 1;
  if (["off", "no", "0"].includes(text)) return 0;
  throw new Error("on or off.");
}

export const boundOf = (name: string): string => `${name}.bound`;

/** What stands in the fields for terms that are set. */
export function typedOf(terms: TermsSet): Record<string, string> {
  return Object.fromEntries(allTerms.flatMap((one) => {
    const said = terms[one.name] ?? {};
    return [
      ...(said.value !== undefined ? [[one.name, termWords(one, said.value)]] : []),
      ...(said.upper_bound !== undefined ? [[boundOf(one.name), termWords(one, said.upper_bound)]] : []),
    ];
  }));
}

/** The terms that the fields say, and what is wrong with some of them. */
export function termsOf(typed: Record<string, string>): { terms: TermsSet; wrong: Record<string, string> } {
  const terms: TermsSet = {};
  const wrong: Record<string, string> = {};
  for (const { name, kind } of allTerms) {
    for (const [field, word] of [[name, "value"], [boundOf(name), "upper_bound"]] as const) {
      try {
        const value = typedTerm(kind, typed[field] ?? "");
        if (value !== undefined) terms[name] = { ...terms[name], [word]: value };
      } catch (cause) {
        wrong[name] = (cause as Error).message;
      }
    }
  }
  return { terms, wrong };
}

export function scopeWords(scope: string): string {
  if (scope === "default") return "Everybody";
  return scope.startsWith("group:") ? `Group ${scope.slice(6)}` : scope.slice(5);
}

/** Everybody first, then groups, then people. */
export function scopesOf(policies: PolicySet[], groups: string[], chosen: string): string[] {
  const people = [...policies.map((one) => one.scope), chosen].filter((one) => one.startsWith("user:"));
  return ["default", ...groups.map((name) => `group:${name}`), ...[...new Set(people)].sort()];
}

export interface Change { going: Going; how: "new" | "sooner" | "later" | "no longer" }

const keyOf = (one: Going): string => `${one.kind}/${one.id}/${one.to}`;
/** Two runs are made at two moments: what differs by less is the same. */
const sameMs = 60_000;

/** What the proposed terms would change; what would go as it does now is left out. Soonest first, losses before gains. */
export function changesOf(now: Going[], then: Going[]): Change[] {
  const before = new Map(now.map((one) => [keyOf(one), one]));
  const after = new Set(then.map(keyOf));
  const changed = then.flatMap((going): Change[] => {
    const was = before.get(keyOf(going));
    if (!was) return [{ going, how: "new" }];
    const byMs = Date.parse(going.at) - Date.parse(was.at);
    return Math.abs(byMs) < sameMs ? [] : [{ going, how: byMs < 0 ? "sooner" : "later" }];
  });
  const spared = now.filter((one) => !after.has(keyOf(one))).map((going): Change => ({ going, how: "no longer" }));
  const order = { new: 0, sooner: 0, later: 1, "no longer": 1 };
  return [...changed, ...spared].sort((a, b) => order[a.how] - order[b.how] || Date.parse(a.going.at) - Date.parse(b.going.at));
}

export function becomes(to: string): string {
  return { standby: "goes to standby", stopped: "is stopped", deleted: "goes to the trash", purged: "is gone for good" }[to] ?? `becomes ${to}`;
}
