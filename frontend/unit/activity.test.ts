/** Activity: runs and filters, the checkpoint before a step, versions of a file, differences, older events. */

import { describe, expect, it } from "vitest";
import type { Action } from "../src/state/actions";
import { keptEvents } from "../src/state/activity";
import { emptyPage, initialState } from "../src/state/initial";
import { counted, lineDiff } from "../src/state/linediff";
import { momentsBefore, versionsOf } from "../src/state/moments";
import { reduce } from "../src/state/reduce";
import { filtered, rowsOf } from "../src/state/runs";
import { stepsOf } from "../src/state/steps";
import type { Actor, BerthEvent, Checkpoint, State } from "../src/state/types";

const bot: Actor = { type: "token", name: "ci-bot" };
const ada: Actor = { type: "user", name: "ada" };
const system: Actor = { type: "system", name: "system" };
const minute = (at: number): string => new Date(Date.parse("2026-01-01T12:00:00Z") + at * 60_000).toISOString();
const event = (seq: number, kind: string, data: Record<string, unknown> = {}, actor = bot, at = 0): BerthEvent => ({ seq, at: minute(at), kind, actor, data });
const started = (seq: number, exec: string, actor = bot, at = 0): BerthEvent => event(seq, "exec.started", { exec_id: exec, command: "make" }, actor, at);
const wrote = (seq: number, path: string): BerthEvent => event(seq, "file.written", { path, size: 1 });
const point = (id: string): Checkpoint => ({
  id, name: "", comment: "", kind: "auto", state: "ready", state_reason: null, actor: bot, memory: true, memory_usable: true,
  consistency: "clean", parent: null, created_at: minute(0), disk_bytes: 1, memory_bytes: 2, pause_ms: 3, expires_at: null,
});
const taken = (seq: number, id: string): BerthEvent[] => [event(seq, "checkpoint.created", { checkpoint: id }), event(seq + 1, "checkpoint.ready", { checkpoint: id })];

describe("runs", () => {
  const shape = (events: BerthEvent[], chosen: Record<string, boolean> = {}): string[] =>
    rowsOf(stepsOf(events), chosen).map((row) => ("run" in row ? `${row.run.steps.length}${row.run.open ? " open" : ""}` : row.step.actor.name));

  it("fold three steps or more of one token that come close together; the newest stands open", () => {
    expect(shape([started(1, "a"), started(2, "b"), started(3, "c"), started(4, "d", ada), started(5, "e"), started(6, "f"), started(7, "g")]))
      .toEqual(["3 open", "ada", "3"]);
    expect(shape([started(1, "a"), started(2, "b")])).toEqual(["ci-bot", "ci-bot"]);
  });
  it("end with a pause, with another actor, and never are a person's", () => {
    expect(shape([started(1, "a"), started(2, "b"), started(3, "c", bot, 5)])).toEqual(["ci-bot", "ci-bot", "ci-bot"]);
    expect(shape([started(1, "a", ada), started(2, "b", ada), started(3, "c", ada)])).toEqual(["ada", "ada", "ada"]);
  });
  it("hold what the system did in between, and not what it did before or after", () => {
    const woke = (seq: number): BerthEvent => event(seq, "workspace.running", {}, system);
    expect(shape([woke(1), started(2, "a"), woke(3), started(4, "b"), woke(5)])).toEqual(["system", "3 open", "system"]);
  });
  it("stay as a person left them while they grow", () => {
    const run = [started(1, "a"), started(2, "b"), started(3, "c")];
    const key = "run-exec-a";
    expect(shape([...run, started(4, "d")], { [key]: false })).toEqual(["4"]);
  });
});

describe("filters", () => {
  const steps = stepsOf([started(1, "a"), wrote(2, "/x"), started(3, "b", ada)]);
  it("keep what somebody did, and what is of a kind", () => {
    expect(filtered(steps, { actor: "token:ci-bot", family: "" }).map((step) => step.key)).toEqual(["event-2", "exec-a"]);
    expect(filtered(steps, { actor: "", family: "exec" }).map((step) => step.key)).toEqual(["exec-b", "exec-a"]);
  });
});

describe("the checkpoint before a step", () => {
  const before = (events: BerthEvent[], ...points: Checkpoint[]): string[] =>
    [...momentsBefore(events, points)].map(([key, { checkpoint, between }]) => `${key} ${checkpoint.id}+${between}`);

  it("is just before the first, and says how many others it undoes for the next", () => {
    expect(before([started(1, "a"), ...taken(2, "p"), started(4, "b"), wrote(5, "/x")], point("p"))).toEqual(["exec-b p+0", "event-5 p+1"]);
  });
  it("counts what was begun while it was taken", () => {
    const [created, ready] = taken(1, "p");
    expect(before([created!, wrote(2, "/x"), { ...ready!, seq: 3 }, started(4, "a")], point("p"))).toEqual(["exec-a p+1"]);
  });
  it("goes by the time of an event, for a host tells later what it did", () => {
    const late = { ...wrote(3, "/x"), at: minute(-1) };
    expect(before([...taken(1, "p"), late, started(4, "a", bot, 1)], point("p"))).toEqual(["exec-a p+0"]);
  });
  it("is none that is gone, and after a restore it is the one that was restored", () => {
    const events = [...taken(1, "p"), ...taken(3, "q"), event(5, "workspace.restored", { checkpoint: "p" }), started(6, "a")];
    expect(before(events, point("q"))).toEqual([]);
    expect(before(events, point("p"), point("q"))).toEqual(["exec-a p+0"]);
  });
});

describe("versions of a file", () => {
  const of = (events: BerthEvent[], seq: number, ...points: Checkpoint[]) => versionsOf(events, points, stepsOf(events).find((step) => step.seq === seq)!);

  it("are the checkpoint before and the file now", () => {
    expect(of([...taken(1, "p"), wrote(3, "/x")], 3, point("p"))).toMatchObject({ before: { id: "p" }, after: "now", notes: [] });
  });
  it("say what else is in the difference", () => {
    const { notes } = of([...taken(1, "p"), wrote(3, "/x"), wrote(4, "/x"), wrote(5, "/x")], 4, point("p"));
    expect(notes.join(" ")).toMatch(/1 earlier change .*changed again later/);
  });
  it("end at a checkpoint where the file was changed again after it", () => {
    expect(of([wrote(1, "/x"), ...taken(2, "p"), wrote(4, "/x")], 1, point("p"))).toMatchObject({ before: null, after: { id: "p" }, notes: [] });
  });
});

describe("differences", () => {
  const said = (before: string, after: string): string[] | undefined => lineDiff(before, after)?.map((line) => line.sign + line.text);

  it("are the lines that changed, with a few around them", () => {
    const lines = Array.from({ length: 20 }, (_, at) => `line ${at}`);
    const after = lines.map((line, at) => (at === 10 ? "other" : line));
    expect(said(lines.join("\n"), after.join("\n"))).toEqual(
      ["…", " line 7", " line 8", " line 9", "-line 10", "+other", " line 11", " line 12", " line 13", "…"]);
  });
  it("turn one text into the other, whatever they are", () => {
    let seed = 7;
    const random = (most: number): number => (seed = (seed * 48271) % 2147483647) % most;
    for (let round = 0; round < 60; round += 1) {
      const [a, b] = [0, 1].map(() => Array.from({ length: random(12) }, () => "abc"[random(3)]!));
      const diff = lineDiff(a!.join("\n"), b!.join("\n"))!;
      const kept = (sign: string): number => diff.filter((line) => line.sign === sign).length;
      expect(kept("+") - kept("-")).toBe(b!.length - a!.length);
      if (!diff.some((line) => line.sign === "…")) {
        const side = (sign: string): string => diff.filter((line) => line.sign !== sign).map((line) => line.text).join("\n");
        if (diff.length > 0) expect([side("+"), side("-")]).toEqual([a!.join("\n"), b!.join("\n")]);
      }
    }
  });
  it("are counted, are none for the same text, and are not looked for without end", () => {
    expect(counted(lineDiff("", "a\nb\n")!)).toEqual({ added: 2, removed: 0 });
    expect(lineDiff("a\n", "a\n")).toEqual([]);
    const many = (word: string): string => Array.from({ length: 3000 }, (_, at) => word + at).join("\n");
    expect(lineDiff(many("a"), many("b"))).toBeNull();
  });
});

describe("older events", () => {
  const start = (): State => initialState({ ...emptyPage, page: "workspace" }, 0, "system");
  const after = (state: State, ...actions: Action[]): State => actions.reduce(reduce, state);
  const many = (from: number, count: number): BerthEvent[] => Array.from({ length: count }, (_, at) => started(from + at, `e${from + at}`));

  it("come before what is known, once, and are kept while new ones come", () => {
    const state = after(start(), { type: "events.received", events: many(300, keptEvents) },
      { type: "events.older", events: many(100, 201), more: true }, { type: "events.received", events: many(800, 3) });
    expect(state.events.map((one) => one.seq)).toEqual(many(103, 700).map((one) => one.seq));
    expect(state.activity.older).toBe("unknown");
  });
  it("are there again when the page let some go", () => {
    const state = after(start(), { type: "events.received", events: many(1, keptEvents) }, { type: "events.older", events: [], more: false });
    expect(state.activity.older).toBe("none");
    expect(after(state, { type: "events.received", events: many(501, 1) }).activity.older).toBe("unknown");
  });
});
