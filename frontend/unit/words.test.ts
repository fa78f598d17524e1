/** The words people read, and the rows of Activity. */

import { describe, expect, it } from "vitest";
import { problemFrom } from "../src/api/problem";
import { slept, sleptAfterMs } from "../src/events/awake";
import { backoffMs } from "../src/events/backoff";
import { presentState, stepsOf } from "../src/state/steps";
import type { BerthEvent } from "../src/state/types";
import { ago, bytes, causeOf, duration, mebibytes, outcomeWords, readable } from "../src/state/words";

const now = Date.parse("2026-01-01T12:00:00Z");
let seq = 0;
const event = (kind: string, data: Record<string, unknown> = {}, name = "ci-bot"): BerthEvent =>
  ({ seq: ++seq, at: "2026-01-01T12:00:00Z", kind, actor: { type: "token", name }, data });

describe("times", () => {
  it("are just now within ten seconds, and also when a clock is ahead", () => {
    expect(ago("2026-01-01T11:59:55Z", now)).toBe("just now");
    expect(ago("2026-01-01T13:00:00Z", now)).toBe("just now");
  });
  it("grow through the units", () => {
    expect(ago("2026-01-01T11:59:00Z", now)).toBe("1 min. ago");
    expect(ago("2026-01-01T09:00:00Z", now)).toBe("3 hr. ago");
    expect(ago("2025-12-25T12:00:00Z", now)).toBe("7 days ago");
  });
  it("are empty when they are none", () => expect(ago("never", now)).toBe(""));
});

describe("sizes and durations", () => {
  it("carry their unit", () => {
    expect([bytes(0), bytes(1023), bytes(1536), bytes(734003200)]).toEqual(["0 B", "1023 B", "1.5 KiB", "700 MiB"]);
    expect([mebibytes(512), mebibytes(2048), mebibytes(1536)]).toEqual(["512 MiB", "2 GiB", "1.5 GiB"]);
    expect([duration(210), duration(8200), duration(61_000)]).toEqual(["210 ms", "8.2 s", "1 min 1 s"]);
  });
});

describe("outcomes", () => {
  it("are named, and only an exit of 0 is good", () => {
    expect(outcomeWords({ kind: "exited", code: 0 })).toEqual({ text: "exit 0", tone: "ok" });
    expect(outcomeWords({ kind: "exited", code: 127 })).toEqual({ text: "exit 127", tone: "bad" });
    expect(outcomeWords({ kind: "signaled", signal: "SIGSEGV" }).text).toBe("ended by SIGSEGV");
    expect(outcomeWords({ kind: "lost", reason: "rolled_back" }).text).toBe("lost: rolled back");
  });
});

describe("text from strangers", () => {
  it("shows control characters and reversals as marks, not as what they do", () => {
    expect(readable("a\u202egnp.exe\n\u0007")).toBe("a\u00b7gnp.exe\u00b7\u00b7");
    expect(readable("bad\udcff")).toBe("bad\ufffd");
  });
});

describe("the cause beside a state", () => {
  it("is the stage while something changes", () => {
    expect(causeOf({ state: "waking", state_reason: "step_failed", stage: "root_disk" } as never)).toBe("root disk");
    expect(causeOf({ state: "failed", state_reason: "machine_died" } as never)).toBe("machine died");
  });
});

describe("activity", () => {
  it("folds the start and the end of an exec into one row", () => {
    const steps = stepsOf([event("exec.started", { exec_id: "e", command: ["pytest", "-q"] }),
      event("exec.ended", { exec_id: "e", command: ["pytest", "-q"], outcome: { kind: "exited", code: 1 } })]);
    expect(steps).toHaveLength(1);
    expect(steps[0]).toMatchObject({ code: "pytest -q", outcome: { text: "exit 1", tone: "bad" }, execId: "e" });
  });
  it("tells how long it took from both ends", () => {
    const began = event("exec.started", { exec_id: "t", command: "make" });
    const ended = { ...event("exec.ended", { exec_id: "t", command: "make", outcome: { kind: "exited", code: 0 } }), at: "2026-01-01T12:00:08.2Z" };
    expect(stepsOf([began, ended])[0]?.detail).toBe("8.2 s");
  });
  it("says running while no end was seen", () => {
    expect(stepsOf([event("exec.started", { exec_id: "e", command: "sleep 9" })])[0]?.outcome?.text).toBe("running");
  });
  it("has the newest on top", () => {
    const steps = stepsOf([event("file.written", { path: "/a" }), event("file.written", { path: "/b" })]);
    expect(steps.map((step) => step.code)).toEqual(["/b", "/a"]);
    expect(stepsOf([event("file.written", { path: "/home/user/a/b.py" })])[0]?.code).toBe("~/a/b.py");
  });
  it("quotes arguments so that a line can be pasted", () => {
    const [step] = stepsOf([event("exec.started", { exec_id: "q", command: ["echo", "it's here"] })]);
    expect(step?.code).toBe("echo 'it'\\''s here'");
  });
  it("stays readable for a kind it never heard of", () => {
    expect(stepsOf([event("network.refused", { reason: "not_allowed" })])[0]).toMatchObject({ text: "Network refused", detail: "not allowed" });
  });
});

describe("the present state", () => {
  it("is told with since when, by whom and why, from its newest event", () => {
    const events = [event("workspace.failed", { detail: "old" }), event("workspace.running"), event("workspace.failed", { detail: "No space." })];
    expect(presentState(events, "failed")).toEqual({ at: "2026-01-01T12:00:00Z", by: "ci-bot", detail: "No space." });
    expect(presentState([], "running")).toEqual({ at: "", by: "", detail: "" });
  });
});

describe("a page that slept", () => {
  it("is not one whose timers were only slowed down in the background", () => {
    expect(slept(0, 60_000)).toBe(false);
    expect(slept(0, sleptAfterMs + 1)).toBe(true);
  });
});

describe("problems", () => {
  it("name the field that is wrong", () => {
    expect(problemFrom(400, { code: "invalid", title: "Not valid", errors: { disk_gib: ["At least 1."] } }).message).toBe("disk gib: At least 1.");
  });
  it("fall back from detail to title to the status", () => {
    expect(problemFrom(409, { code: "busy", title: "Busy", detail: "Another one." }).message).toBe("Another one.");
    expect(problemFrom(409, { title: "Busy" }).message).toBe("Busy");
    expect(problemFrom(502, {}).message).toBe("The server answered 502.");
  });
});

describe("backoff", () => {
  it("grows, is jittered and has a ceiling", () => {
    expect(backoffMs(0, () => 0)).toBe(200);
    expect(backoffMs(0, () => 1)).toBe(400);
    expect(backoffMs(3, () => 1)).toBe(3200);
    expect(backoffMs(99, () => 1)).toBe(15_000);
  });
});
