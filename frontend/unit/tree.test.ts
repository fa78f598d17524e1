/** The graph of checkpoints: where each stands, and which lines pass it. */

import { describe, expect, it } from "vitest";
import { isStoodOn, treeOf } from "../src/state/tree";
import type { Checkpoint } from "../src/state/types";

const point = (id: string, parent: string | null = null): Checkpoint => ({
  id, name: id, comment: "", kind: "manual", state: "ready", state_reason: null, actor: { type: "user", name: "ada" }, memory: false,
  memory_usable: false, consistency: "clean", parent, created_at: "2026-01-01T12:00:00Z", disk_bytes: 1, memory_bytes: 0, pause_ms: 3, expires_at: null,
});
const places = (rows: ReturnType<typeof treeOf>["rows"]): string[] => rows.map((row) => `${row.id}${row.at}`);

describe("the graph of checkpoints", () => {
  it("is one line where nobody ever went back", () => {
    const { rows, lanes } = treeOf([point("b", "a"), point("a")], "b");
    expect(lanes).toBe(1);
    expect(rows.map((row) => [row.id, row.arriving.length, row.leaves])).toEqual([["now", 0, true], ["b", 1, true], ["a", 1, false]]);
  });
  it("keeps the way to now in the first lane and what a restore left behind beside it", () => {
    const { rows, lanes } = treeOf([point("safety", "c"), point("c", "b"), point("b", "a"), point("a")], "b");
    expect(places(rows)).toEqual(["now0", "safety1", "c1", "b0", "a0"]);
    expect(lanes).toBe(2);
    expect(rows[1]!.passing).toEqual([{ at: 0, trunk: true }]);
    expect(rows[3]!.arriving).toEqual([{ at: 0, trunk: true }, { at: 1, trunk: false }]);
    expect(rows.map((row) => row.trunk)).toEqual([true, false, false, true, true]);
  });
  it("gives a lane that has ended to the next branch, and loses no line whose parent is not listed or came later", () => {
    const { rows } = treeOf([point("d", "gone"), point("e", "a"), point("a", "f"), point("f", "a")], "a");
    expect(places(rows)).toEqual(["now0", "d1", "e1", "a0", "f0"]);
    expect(rows.map((row) => row.leaves)).toEqual([true, false, true, true, false]);
  });
  it("stands alone where there is nothing", () => expect(treeOf([], null)).toMatchObject({ lanes: 1, rows: [{ id: "now", leaves: false }] }));
  it("says whether later points or the disk stand on one", () => {
    expect([isStoodOn([point("b", "a"), point("a")], "b", "a"), isStoodOn([point("b", "a")], "b", "b"), isStoodOn([point("b")], null, "b")])
      .toEqual([true, true, false]);
  });
});
