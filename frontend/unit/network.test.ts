/** What a workspace may reach: rules in words and back, the log, and their rows of Activity. */

import { describe, expect, it } from "vitest";
import type { Action } from "../src/state/actions";
import { emptyPage, initialState } from "../src/state/initial";
import { foundAttempts, ruleFor, ruleOf, ruleWords, whyWords, withRule, type Attempt } from "../src/state/network";
import { reduce } from "../src/state/reduce";
import { stepsOf } from "../src/state/steps";
import type { BerthEvent, State } from "../src/state/types";

const after = (...actions: Action[]): State => actions.reduce(reduce, initialState({ ...emptyPage, page: "workspace" }, 0, "system"));
const attempt = (seq: number, change: Partial<Attempt> = {}): Attempt => ({
  seq, at: "2026-01-02T03:04:05Z", name: "a.org", address: "203.0.113.9", port: 443, protocol: "tcp", verdict: "refused", rule: "rules", reason: "no_rule", bytes_in: 0, bytes_out: 0, ...change,
});

describe("a rule", () => {
  it("is typed as it is read", () => {
    for (const words of ["a.org", "*.a.org:443", "203.0.113.0/24", "203.0.113.0/24:22,443", "GET,HEAD a.org:80/x/y"]) expect(ruleWords(ruleOf(words))).toBe(words);
    expect(ruleOf(" 203.0.113.9 ")).toEqual({ cidr: "203.0.113.9/32" });
    expect(ruleWords({ domain: "a.org", ports: [80, 443] })).toBe("a.org");
    for (const wrong of ["", "a.org b.org", "https://a.org", "a.org/24", "::1"]) expect(() => ruleOf(wrong), wrong).toThrow("Write it like");
  });
  it("lets through what was refused for want of one, and nothing else", () => {
    expect(ruleFor(attempt(1))).toEqual({ domain: "a.org", ports: [443] });
    expect(ruleFor(attempt(1, { name: null, port: 22 }))).toEqual({ cidr: "203.0.113.9/32", ports: [22] });
    expect(ruleFor(attempt(1, { name: "203.0.113.9", reason: "asked_denied" }))).toEqual({ cidr: "203.0.113.9/32", ports: [443] });
    expect(ruleFor(attempt(1, { protocol: "dns", port: 53 }))).toEqual({ domain: "a.org" });
    for (const change of [{ verdict: "allowed" }, { reason: "private" }, { reason: "bound" }, { protocol: "udp" }, { protocol: "icmp", port: 0 }] as Partial<Attempt>[]) expect(ruleFor(attempt(1, change))).toBeNull();
    expect(withRule({ mode: "deny-all" }, { domain: "a.org" })).toEqual({ mode: "rules", rules: [{ domain: "a.org" }], ask: false });
  });
});

describe("the log", () => {
  const read = after({ type: "attempts.read", attempts: [attempt(1), attempt(2, { name: "b.org", verdict: "allowed", rule: "rules[0]", reason: "" })] }, { type: "attempts.read", attempts: [attempt(2), attempt(3, { name: null })] });
  it("has each row once, and is searched by what a row shows", () => {
    const found = (change: Partial<State["network"]>): number[] => foundAttempts({ ...read.network, ...change }).map((one) => one.seq);
    expect(found({})).toEqual([3, 2, 1]);
    expect([found({ search: "B.org" }), found({ search: "no rule" }), found({ refusedOnly: true })]).toEqual([[2], [3, 1], [3, 1]]);
    expect(reduce(read, { type: "attempts.read", attempts: [attempt(3)] })).toBe(read);
    expect(whyWords(attempt(1, { verdict: "allowed", rule: "rules[1]" }))).toBe("rule 2");
  });
});

describe("in Activity", () => {
  const event = (kind: string, data: Record<string, unknown>, cause = ""): BerthEvent => ({ seq: 1, at: "2026-01-02T03:04:05Z", kind, actor: { type: "user", name: "ada" }, data, ...(cause ? { cause } : {}) }) as BerthEvent;
  it("a change says what came and went, a refusal where to, a request what for", () => {
    expect(stepsOf([event("network.changed", { mode: "rules", rules: 2, added: ["a.org:443"], removed: ["b.org:80"] })])[0]).toMatchObject({ text: "May reach what 2 rules name", code: "+a.org:443 −b.org:80" });
    expect(stepsOf([event("network.changed", { mode: "deny-all", rules: 0 }, "policy")])[0]).toMatchObject({ text: "May reach nothing", detail: "the admins’ terms changed" });
    expect(stepsOf([event("network.refused", { name: "", address: "203.0.113.9", port: 22, reason: "no_rule", count: 3 })])[0]).toMatchObject({ code: "203.0.113.9:22", detail: "no rule, 3 times" });
    expect(stepsOf([event("approval.requested", { approval: "a", kind: "network", name: "a.org", port: 443 })])[0]).toMatchObject({ text: "Wants to reach", code: "a.org:443" });
  });
});
