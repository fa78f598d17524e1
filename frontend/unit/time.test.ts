/** Checkpoints, Undo, what comes next and holds: what the State makes of them, and in which words they are told. */

import { describe, expect, it } from "vitest";
import type { Action } from "../src/state/actions";
import { comingWords, holdReason, holdWords } from "../src/state/coming";
import { uses } from "../src/state/quota";
import { emptyPage, initialState } from "../src/state/initial";
import { reduce } from "../src/state/reduce";
import { stepsOf } from "../src/state/steps";
import { undoOf, undoOfferedMs } from "../src/state/time";
import type { BerthEvent, Checkpoint, Hold, Me, State, Workspace } from "../src/state/types";
import { ahead, canStart, isLeftAlone, startWord, stateTone, stateWord } from "../src/state/words";

const at = "2026-01-01T12:00:00Z";
const now = Date.parse(at);
const start = (): State => ({ ...initialState({ ...emptyPage, page: "workspace", workspace: "w", user: "ada" }, now, "system") });
const after = (state: State, ...actions: Action[]): State => actions.reduce(reduce, state);

const point = (id: string, change: Partial<Checkpoint> = {}): Checkpoint => ({
  id, name: "", comment: "", kind: "manual", state: "ready", state_reason: null, actor: { type: "user", name: "ada" }, memory: true,
  memory_usable: true, consistency: "clean", parent: null, created_at: at, disk_bytes: 1, memory_bytes: 2, pause_ms: 3, expires_at: null, ...change,
});
const event = (seq: number, kind: string, data: Record<string, unknown> = {}, when = at): BerthEvent =>
  ({ seq, at: when, kind, actor: { type: "user", name: "ada" }, data });
const listed = (...checkpoints: Checkpoint[]): Action => ({ type: "checkpoints.listed", checkpoints, more: false });
const told = (...events: BerthEvent[]): Action => ({ type: "events.received", events });

describe("checkpoints", () => {
  it("put one that was just taken on top and change one that is known in its place", () => {
    const state = after(start(), listed(point("b"), point("a")), { type: "checkpoint.changed", checkpoint: point("c") },
      { type: "checkpoint.changed", checkpoint: point("a", { name: "green" }) });
    expect(state.time.checkpoints.map((one) => one.id + one.name)).toEqual(["c", "b", "agreen"]);
  });
  it("stay on the page when they cannot be read again", () => {
    expect(after(start(), listed(point("a")), { type: "checkpoints.failed", problem: "No." }).time)
      .toMatchObject({ status: "failed", problem: "No.", checkpoints: [{ id: "a" }] });
  });
  it("are the very same state for what is not theirs", () => {
    const state = start();
    expect(after(state, { type: "undo.dismissed", seq: 1 }).events).toBe(state.events);
    expect(after(state, { type: "dialog.closed" }).time).toBe(state.time);
  });
});

describe("undo", () => {
  const restored = event(5, "workspace.restored", { checkpoint: "a", safety_checkpoint: "s" });
  const there = after(start(), listed(point("s", { kind: "safety" }), point("a")), told(restored));

  it("offers the safety checkpoint of the newest restore", () => {
    expect(undoOf(there)).toMatchObject({ safety: { id: "s" }, target: { id: "a" } });
    const again = after(there, told(event(6, "workspace.restored", { checkpoint: "s", safety_checkpoint: null })));
    expect(undoOf(again)).toBeNull();
  });
  it("is not offered when the safety checkpoint is gone, still being taken, or was not wanted", () => {
    expect(undoOf(after(there, listed(point("a"))))).toBeNull();
    expect(undoOf(after(there, listed(point("s", { state: "capturing" }))))).toBeNull();
    expect(undoOf(start())).toBeNull();
  });
  it("goes when it was put away or is long ago, and comes with the next restore", () => {
    const away = after(there, { type: "undo.dismissed", seq: 5 });
    expect(undoOf(away)).toBeNull();
    expect(undoOf(after(away, told(event(7, "workspace.restored", { checkpoint: "a", safety_checkpoint: "s" }))))).not.toBeNull();
    expect(undoOf(after(there, { type: "ticked", now: now + undoOfferedMs + 1 }))).toBeNull();
  });
});

describe("the place beside the editor", () => {
  it("keeps its tab while another pane is in front", () => {
    const state = after(start(), { type: "pane.shown", pane: "time" }, { type: "pane.shown", pane: "terminal" });
    expect([state.side, state.pane]).toEqual(["time", "terminal"]);
    expect(after(state, { type: "pane.shown", pane: "activity" }).side).toBe("activity");
  });
});

describe("states at rest", () => {
  it("are woken from standby and started from stop", () => {
    expect([startWord("standby"), startWord("stopped"), startWord("failed")]).toEqual(["Wake", "Start", "Start"]);
    expect([canStart("standby"), canStart("parking"), canStart("restoring")]).toEqual([true, false, false]);
    expect((["standby", "parking", "waking", "restoring"] as const).map(stateWord)).toEqual(["Standby", "Going to standby", "Waking", "Restoring"]);
    expect(stateTone("standby")).toBe("rest");
  });
  it("are not asked for what would wake them", () => {
    expect((["standby", "parking", "restoring", "waking", "running", "stopped"] as const).map(isLeftAlone)).toEqual([true, true, true, false, false, false]);
  });
});

describe("what comes next", () => {
  const workspace = (change: Partial<Workspace>): Workspace => ({
    id: "w", name: "w", state: "running", state_reason: null, owner: "ada", cpus: 1, memory_mib: 512, disk_gib: 10, disk_used_bytes: null,
    created_at: at, last_activity_at: null, last_activity_kind: null, accelerator: null, ...change,
  });
  const next = (to: string, minutes: number, because: string): Workspace =>
    workspace({ next_transition: { to, at: new Date(now + minutes * 60_000).toISOString(), because } });

  it("is told with what, when and why", () => {
    expect(comingWords(next("standby", 12, "idle"), now)).toBe("goes to standby in 12 min. because idle");
    expect(comingWords(next("stopped", 60 * 24 * 3, "stop_after"), now)).toBe("stops in 3 days after long standby");
    expect(comingWords(next("deleted", 60, "trash_after"), now)).toBe("goes to the trash in 1 hr. after being unused for long");
    expect(comingWords(next("elsewhere", 60, "some_rule"), now)).toBe("becomes elsewhere in 1 hr. because some rule");
  });
  it("is never sooner than was said", () => {
    expect(ahead("2026-01-01T12:01:59Z", now)).toBe("in 1 min.");
    expect(ahead("2026-01-08T12:00:01Z", now)).toBe("in 7 days");
    expect(ahead("2026-01-01T11:59:00Z", now)).toBe("in less than a minute");
    expect(ahead("never", now)).toBe("");
  });
  it("is else what keeps it awake", () => {
    expect(comingWords(workspace({ next_transition: null, awake_because: [{ kind: "exec", detail: "2 running", until: null }] }), now)).toBe("stays awake: 2 running");
    expect(comingWords(workspace({ awake_because: [{ kind: "policy", detail: "It never goes to rest by itself.", until: null }] }), now)).toBe("");
    expect(comingWords(workspace({}), now)).toBe("");
  });
});

describe("holds", () => {
  const hold = (change: Partial<Hold>): Hold => ({ id: "h", reason: holdReason, from: "api", actor: { type: "user", name: "ada" }, expires_at: at, ...change });
  it("say until when, and by whom and why where that is not the reader from the page", () => {
    expect(holdWords(hold({}), start())).toMatch(/^Kept awake until \d\d:\d\d$/);
    expect(holdWords(hold({ actor: { type: "token", name: "ci-bot" }, reason: "build" }), start())).toMatch(/ by ci-bot: build$/);
    expect(holdWords(hold({ from: "guest", reason: "training" }), start())).toMatch(/ from inside: training$/);
  });
});

describe("use against quota", () => {
  it("names the limit where there is one, and says what is full", () => {
    const amounts = { workspaces: 2, running: 1, cpus: 3, memory_mib: 1536, disk_gib: 21, checkpoints: 4 };
    const me: Me = { name: "ada", used: amounts, quota: { workspaces: 2, running: null, cpus: 8, memory_mib: 8192, disk_gib: 100, checkpoints: null } };
    expect(uses(me).map((part) => part.text)).toEqual(
      ["2 of 2 workspaces", "1 running", "3 of 8 CPUs", "1.5 GiB of 8 GiB memory", "21 GiB of 100 GiB disk", "4 checkpoints"]);
    expect(uses(me).map((part) => part.full)).toEqual([true, false, false, false, false, false]);
  });
});

describe("activity", () => {
  it("folds a checkpoint that is asked for and that is ready into one row", () => {
    const steps = stepsOf([event(1, "checkpoint.created", { checkpoint: "c", name: "green", kind: "manual" }),
      event(2, "checkpoint.ready", { checkpoint: "c", name: "green", kind: "manual", memory: true, pause_ms: 120 })]);
    expect(steps).toHaveLength(1);
    expect(steps[0]).toMatchObject({ text: "Checkpoint “green”", outcome: { text: "ready", tone: "ok" }, detail: "with memory, paused 120 ms" });
  });
  it("keeps the deletion of a checkpoint a step of its own", () => {
    const steps = stepsOf([event(1, "checkpoint.created", { checkpoint: "c", name: "", kind: "auto" }),
      event(2, "checkpoint.deleted", { checkpoint: "c", name: "", kind: "auto", because: "kept_last" })]);
    expect(steps.map((step) => step.text)).toEqual(["Checkpoint deleted", "Automatic checkpoint"]);
    expect(steps[0]?.detail).toBe("newer ones are kept");
  });
  it("says plainly that a memory was dropped, and what is safe", () => {
    const [step] = stepsOf([event(1, "workspace.memory_dropped", { reason: "memory_image_unfit" })]);
    expect(step?.text).toContain("Files are safe; what ran has ended.");
    expect(step).toMatchObject({ outcome: { text: "memory dropped", tone: "bad" }, detail: "it is of another kind of machine or host" });
  });
  it("says of a restore that failed that nothing was changed", () => {
    expect(stepsOf([event(1, "workspace.restore_failed", { reason: "no_space", detail: "No space." })])[0])
      .toMatchObject({ text: "Restore failed: nothing was changed", detail: "No space." });
  });
});

describe("what policy takes", () => {
  const words = (data: Record<string, unknown>): string => stepsOf([event(1, "retention.notice", data)])[0]?.text ?? "";

  it("is told before, with its instant where there is one", () => {
    expect(words({ to: "deleted", at: "2026-01-03T12:00:00Z" })).toMatch(/^Goes to the trash at .+ unless it is started$/);
    expect(words({ to: "deleted", at: "2026-01-03T12:00:00Z", checkpoint: "c", name: "green", kind: "manual" })).toMatch(/^Checkpoint “green” is removed at /);
    expect(words({ to: "deleted", at: null, checkpoint: "c", name: "", kind: "auto" })).toBe("Automatic checkpoint goes when the next one is taken");
  });

  it("and a rest that failed says when it is tried again", () => {
    const failed = { kind: "standby_failed", detail: "It could not go to standby 2 times in a row: disk_full.", until: "2026-01-01T12:10:00Z" };
    const next = { to: "standby", at: "2026-01-01T12:10:00Z", because: "standby_failed" };
    const box = { next_transition: next, awake_because: [failed] } as unknown as Workspace;
    expect(comingWords(box, now)).toBe("goes to standby in 10 min. as it could not before");
    expect(comingWords({ ...box, next_transition: null } as Workspace, now)).toContain("2 times in a row");
  });
});
