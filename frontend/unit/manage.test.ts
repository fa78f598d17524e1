/** Policy terms as people type them, what a dry run changes, and the audit as a file. */

import { describe, expect, it } from "vitest";
import { fileOf } from "../src/manage/export";
import { allTerms, changesOf, scopesOf, termsOf, termWords, typedOf, typedTerm, type TermKind } from "../src/manage/terms";
import type { AuditEntry, Going, TermValue } from "../src/state/manage";
import type { Policy } from "../src/state/network";

const rules: Policy = { mode: "rules", rules: [{ domain: "*.a.org" }, { cidr: "203.0.113.0/24", ports: [22, 443] }, { domain: "b.c", ports: [80], methods: ["GET", "HEAD"], path_prefix: "/x" }], ask: true };
const values: Partial<Record<TermKind, TermValue[]>> = {
  flag: [0, 1], policy: [{ mode: "deny-all" }, { mode: "allow-all" }, rules, { mode: "rules", rules: [], ask: false }], bound: [null, { mode: "deny-all" }, rules],
  ranges: [[], ["10.1.2.0/24", "10.2.0.0/16"]],
};

describe("a typed term", () => {
  it("is read as people write it", () => {
    expect(["15 min", "15min", "90", "2 h", "3 hours", "7 days", "1 d", "30 secs", "2 weeks", "Never", " ", "0 s"].map((text) => typedTerm("time", text)))
      .toEqual([900, 900, 90, 7200, 10800, 604800, 86400, 30, 1209600, null, undefined, 0]);
    expect(["10", "no limit", ""].map((text) => typedTerm("count", text))).toEqual([10, null, undefined]);
    expect(["on", "off", "never"].map((text) => typedTerm("flag", text))).toEqual([1, 0, 0]);
  });

  it("is refused in words when it cannot be meant", () => {
    for (const wrong of ["soon", "-5 min", "1.5 h", "5 parsecs", "1e3"]) expect(() => typedTerm("time", wrong)).toThrow("15 min");
    expect(() => typedTerm("count", "10 min")).toThrow("whole number");
    expect(() => typedTerm("flag", "2")).toThrow("on or off");
  });

  it("comes back from what is shown of it", () => {
    for (const one of allTerms) {
      for (const value of values[one.kind] ?? [60, 900, 86400, 604800, null]) {
        expect(typedTerm(one.kind, termWords(one, value))).toEqual(value);
      }
    }
  });

  it("keeps values and bounds apart, and names the term that is wrong", () => {
    const set = { cpus: { value: 4, upper_bound: null }, standby_after_s: { upper_bound: 3600 }, auto_checkpoints: { value: 0 } };
    expect(termsOf(typedOf(set))).toEqual({ terms: set, wrong: {} });
    expect(Object.keys(termsOf({ cpus: "many", "stop_after_s.bound": "late" }).wrong)).toEqual(["stop_after_s", "cpus"]);
  });

  it("is everybody's, a group's or a person's", () => {
    const set = (scope: string) => ({ scope, terms: {}, changed_at: "", changed_by: null });
    expect(scopesOf([set("user:zoe"), set("default"), set("group:crew")], ["crew", "ops"], "user:ann")).toEqual(["default", "group:crew", "group:ops", "user:ann", "user:zoe"]);
  });
});

const going = (id: string, to: string, at: string): Going => ({ kind: "workspace", id, name: id, workspace: id, owner: "ann", to, at, because: "stop_after_s", noticed: false });

describe("what a policy would change", () => {
  it("leaves out what goes as it does now", () => {
    const now = [going("a", "stopped", "2026-01-03T00:00:00Z"), going("b", "stopped", "2026-01-09T00:00:00Z"), going("c", "deleted", "2026-01-05T00:00:00Z"), going("d", "stopped", "2026-01-02T00:00:00Z")];
    const then = [going("a", "stopped", "2026-01-03T00:00:20Z"), going("b", "stopped", "2026-01-02T00:00:00Z"), going("e", "deleted", "2026-01-04T00:00:00Z"), going("d", "stopped", "2026-01-08T00:00:00Z")];
    expect(changesOf(now, then).map(({ going: one, how }) => [one.id, how])).toEqual([["b", "sooner"], ["e", "new"], ["c", "no longer"], ["d", "later"]]);
  });
});

describe("the audit as a file", () => {
  const entry: AuditEntry = {
    id: "x", at: "2026-01-01T00:00:00Z", actor: { type: "token", name: "=cmd()", token_id: "t", token_name: 'a "b", c' }, address: null,
    kind: "workspace.stop", target: "workspace:w", outcome: "ok", status: 202, data: { reason: "line\nbreak" },
  };

  it("is one JSON a line", () => {
    expect(JSON.parse(fileOf([entry, entry], "jsonl").trim().split("\n")[1]!)).toEqual(entry);
  });

  it("is CSV that no spreadsheet runs", () => {
    const [head, row] = fileOf([entry], "csv").split("\r\n");
    expect(head!.split(",").slice(0, 4)).toEqual(["at", "actor_type", "actor", "token"]);
    expect(row).toBe(`2026-01-01T00:00:00Z,token,'=cmd(),"a ""b"", c",t,,workspace.stop,workspace:w,ok,202,"{""reason"":""line\\nbreak""}",x`);
  });
});
