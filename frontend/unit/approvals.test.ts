/** What waits for a member, told as Activity and kept in the State. */

import { describe, expect, it } from "vitest";
import { emptyPage, initialState } from "../src/state/initial";
import { reduce } from "../src/state/reduce";
import { stepsOf } from "../src/state/steps";
import type { Approval, BerthEvent } from "../src/state/types";

function event(seq: number, kind: string, name: string, data: Record<string, unknown>): BerthEvent {
  return { seq, at: "2026-01-01T00:00:00Z", kind, actor: { type: "token", name }, data };
}

const asked = event(1, "approval.requested", "agent", { approval: "a1", kind: "exec", command: "rm -rf x" });

describe("a request for approval", () => {
  it("is one row: who asked, what for, and what became of it by whom", () => {
    expect(stepsOf([asked])[0]).toMatchObject({ text: "Wants to run", code: "rm -rf x", outcome: { text: "waits for approval", tone: "busy" } });
    const rows = stepsOf([asked, event(2, "approval.denied", "ann", { approval: "a1", kind: "exec", command: "rm -rf x" })]);
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({ actor: { name: "agent" }, outcome: { text: "denied by ann", tone: "bad" } });
  });

  it("that cannot be done after all says why", () => {
    const failed = event(3, "approval.failed", "system", { approval: "a1", kind: "restore", detail: "There is no such checkpoint." });
    expect(stepsOf([failed])[0]).toMatchObject({ text: "Wants to go back to a checkpoint", detail: "There is no such checkpoint." });
  });

  it("stands in the State as the server lists it", () => {
    const one = { id: "a1", kind: "exec" } as Approval;
    const before = initialState(emptyPage, 0, "system");
    expect(reduce(before, { type: "approvals.listed", approvals: [one] }).approvals).toEqual([one]);
  });
});
