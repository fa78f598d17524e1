/**
 * What a workspace may reach, as a person reads and types it, and how the page's part of it changes. Part of reduce.ts;
 * pure. Also read by the admins' terms.
 *
 * A rule in words: `*.example.org`, `example.org:443`, `203.0.113.0/24:22`, `GET,HEAD example.org:80/public`.
 */

import type { Action } from "./actions";
import type { State } from "./types";

export interface Rule { domain?: string; cidr?: string; ports?: number[]; methods?: string[]; path_prefix?: string }
export type Mode = "deny-all" | "rules" | "allow-all";
export interface Policy { mode: Mode; rules?: Rule[]; ask?: boolean }

/** What the server says of it. */
export interface Network {
  network: Policy;
  revision: number;
  /** Its host has this revision. */
  in_force: boolean;
  /** Its host lets machines out at all. */
  supported: boolean;
  bound: Policy | null;
  private_allowed: string[];
  limits: Record<"connections" | "bytes_per_s" | "dns_per_s", number | null>;
}

export interface Attempt {
  seq: number;
  at: string;
  name: string | null;
  address: string | null;
  port: number;
  protocol: string;
  verdict: "allowed" | "refused" | "asked";
  rule: string;
  reason: string;
  bytes_in: number;
  bytes_out: number;
  count?: number;
}

export interface NetworkState {
  problem: string;
  set: Network | null;
  /** What a person is making of it; null while it is as it is set. */
  draft: Policy | null;
  /** What the server would not take, by field (`rules[2].domain`); `add` is what was typed for a new one. */
  wrong: Record<string, string>;
  busy: boolean;
  log: Attempt[];
  logProblem: string;
  refusedOnly: boolean;
  search: string;
}

export const noNetwork: NetworkState = {
  problem: "", set: null, draft: null, wrong: {}, busy: false, log: [], logProblem: "", refusedOnly: false, search: "",
};

const most = 500;

export function reduceNetwork(state: State, action: Action): State {
  switch (action.type) {
    case "network.changed": {
      const same = Object.entries(action.change).every(([name, value]) => JSON.stringify(state.network[name as keyof NetworkState]) === JSON.stringify(value));
      return same ? state : { ...state, network: { ...state.network, ...action.change } };
    }
    case "attempts.read": {
      const known = new Set(state.network.log.map((one) => one.seq));
      const fresh = action.attempts.filter((one) => !known.has(one.seq));
      if (fresh.length === 0 && !state.network.logProblem) return state;
      return { ...state, network: { ...state.network, logProblem: "", log: [...state.network.log, ...fresh].slice(-most) } };
    }
    default:
      return state;
  }
}

/** What holds in the editor: the draft, or what is set. */
export function shownPolicy({ draft, set }: NetworkState): Policy {
  return draft ?? set?.network ?? { mode: "deny-all" };
}

export function ruleWords(rule: Rule): string {
  const methods = rule.methods?.length ? `${rule.methods.join(",")} ` : "";
  const web = rule.domain !== undefined && rule.ports?.join() === "80,443";
  const ports = rule.ports?.length && !web ? `:${rule.ports.join(",")}` : "";
  return `${methods}${rule.domain ?? rule.cidr ?? ""}${ports}${rule.path_prefix ?? ""}`;
}

const form = /^(?:([A-Za-z,]+)\s+)?([^\s:/]+(?:\/\d{1,2})?)(?::([\d,]+))?(\/\S*)?$/;

/** Throws words. What names are allowed at all the server says. */
export function ruleOf(typed: string): Rule {
  const [, methods, place, ports, path] = form.exec(typed.trim()) ?? [];
  if (!place) throw new Error("Write it like example.org, *.example.org:443 or 203.0.113.0/24.");
  const address = /^\d{1,3}(\.\d{1,3}){3}(\/\d{1,2})?$/.test(place);
  if (place.includes("/") && !address) throw new Error("Write it like example.org, *.example.org:443 or 203.0.113.0/24.");
  return {
    ...(address ? { cidr: place.includes("/") ? place : `${place}/32` } : { domain: place }),
    ...(ports ? { ports: ports.split(",").map(Number) } : {}),
    ...(methods ? { methods: methods.toUpperCase().split(",") } : {}),
    ...(path ? { path_prefix: path } : {}),
  };
}

export function policyWords(policy: Policy): string {
  if (policy.mode !== "rules") return policy.mode === "deny-all" ? "nothing" : "anything";
  const rules = (policy.rules ?? []).map(ruleWords).join(", ") || "no destination";
  return policy.ask ? `${rules}, ask` : rules;
}

/** As `policyWords` says it, typed by hand. Throws words. */
export function policyOf(typed: string): Policy {
  const text = typed.trim();
  if (["nothing", "deny-all"].includes(text.toLowerCase())) return { mode: "deny-all" };
  if (["anything", "allow-all"].includes(text.toLowerCase())) return { mode: "allow-all" };
  const words = text.split(/,\s+|;\s*/).filter(Boolean);
  const rules = words.filter((one) => one !== "ask").map(ruleOf);
  return { mode: "rules", rules: text === "no destination" ? [] : rules, ask: words.includes("ask") };
}

/** The rule that would have let this through; null where none can. */
export function ruleFor(attempt: Attempt): Rule | null {
  if (attempt.verdict !== "refused" || attempt.port === 0 || !["mode", "no_rule", "port", "asked_denied", "asked_timeout"].includes(attempt.reason)) return null;
  if (attempt.protocol === "dns") return attempt.name ? { domain: attempt.name } : null;
  if (attempt.protocol !== "tcp") return null;
  // A request may name its host by its address.
  if (attempt.name && !/^[\d.]+$/.test(attempt.name)) return { domain: attempt.name, ports: [attempt.port] };
  return attempt.address ? { cidr: `${attempt.address}/32`, ports: [attempt.port] } : null;
}

export function withRule(policy: Policy, rule: Rule): Policy {
  return { mode: "rules", rules: [...(policy.mode === "rules" ? policy.rules ?? [] : []), rule], ask: policy.ask ?? false };
}

/** What decided, and why, in words. */
export function whyWords({ verdict, rule, reason }: Attempt): string {
  if (verdict === "allowed") return rule === "mode" ? "anything is allowed" : rule.replace(/^rules\[(\d+)\]$/, (_, at: string) => `rule ${Number(at) + 1}`);
  if (verdict === "asked") return "waits for a member";
  return reasons[reason] ?? reason.replaceAll("_", " ");
}

const reasons: Record<string, string> = {
  mode: "nothing is allowed", no_rule: "no rule names it", bound: "beyond what admins allow", private: "a private address",
  own_address: "the host’s own address", port: "not on this port", name_not_resolved: "the name was not asked for here",
  name_expired: "the name’s address is too old", sni_missing: "it does not say which name it wants", sni_mismatch: "it names another name inside",
  host_mismatch: "it asks for another host inside", ech: "its name is hidden", method: "not this method", path: "not this path",
  limit_connections: "too many connections at once", limit_dns: "too many name questions", protocol: "only TCP leaves a machine",
  upstream_refused: "the other end refused", upstream_timeout: "the other end did not answer", upstream_unreachable: "there is no way there",
  timeout: "the other end did not answer", unreachable: "there is no way there", policy_changed: "the policy changed: cut", asked_denied: "a member said no",
  asked_timeout: "nobody decided in time", no_egress: "the host lets nothing out now",
};

export function foundAttempts({ log, search, refusedOnly }: NetworkState): Attempt[] {
  const text = search.trim().toLowerCase();
  const shown = refusedOnly ? log.filter((one) => one.verdict !== "allowed") : log;
  const found = text ? shown.filter((one) => [one.name, one.address, String(one.port), one.protocol, whyWords(one)].some((words) => words?.toLowerCase().includes(text))) : shown;
  return [...found].reverse();
}
