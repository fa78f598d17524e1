/** The drawing beside a row of Time: lanes, branches, and a mark whose shape says what kind of point it is. Called by time.ts. */

import { mostLanes, type Lane, type TreeRow } from "../state/tree";
import type { Checkpoint } from "../state/types";
import { h, type VNode } from "./dom";

const laneWidth = 14;
const left = 15;
/** How far from a row's top its mark stands: at the middle of its first line. */
const markY = 20;

export const gutter = (lanes: number): number => left + (lanes - 1) * laneWidth + 14;
const x = (lane: number): string => String(left + Math.min(lane, mostLanes - 1) * laneWidth);
const kind = (trunk: boolean): string => `graph-line${trunk ? " trunk" : ""}`;

export function graph(row: TreeRow, lanes: number, mark: VNode[]): VNode {
  const width = gutter(lanes);
  return h("span", { class: "graph", style: { width: `${width}px` }, "aria-hidden": "true" }, h("svg", { width: String(width), height: "100%", fill: "none" },
    row.passing.map((lane) => straight(lane, "0", "100%")),
    row.arriving.map((lane) => (lane.at === row.at ? straight(lane, "0", String(markY)) : bend(lane, row.at))),
    row.leaves && straight({ at: row.at, trunk: row.trunk }, String(markY), "100%"),
    h("g", { key: "mark", transform: `translate(${x(row.at)} ${markY})`, class: row.trunk ? "graph-mark trunk" : "graph-mark" }, mark)));
}

function straight(lane: Lane, from: string, to: string): VNode {
  return h("line", { key: `${lane.at}-${from}-${to}`, class: kind(lane.trunk), x1: x(lane.at), x2: x(lane.at), y1: from, y2: to });
}

/** From a lane beside, into the point both came from. */
function bend(lane: Lane, to: number): VNode {
  return h("path", { key: `bend-${lane.at}`, class: kind(lane.trunk), d: `M${x(lane.at)} 0C${x(lane.at)} ${markY} ${x(lane.at)} ${markY} ${x(to)} ${markY}` });
}

export const nowMark: VNode[] = [
  h("circle", { key: "ring", class: "mark-ring", r: "7" }),
  h("circle", { key: "dot", class: "mark-filled", r: "3" }),
];

/** A circle was taken by somebody, a square by itself, a diamond before a restore. Filled: with a memory that can go on. */
export function pointMark(one: Checkpoint): VNode[] {
  const look = one.state === "ready" && one.memory && one.memory_usable ? "mark-filled" : one.state === "failed" ? "mark-failed" : "mark-hollow";
  switch (one.kind) {
    case "manual": return [h("circle", { key: "circle", class: look, r: "5" })];
    case "auto": return [h("rect", { key: "square", class: look, x: "-4.5", y: "-4.5", width: "9", height: "9", rx: "1" })];
    case "safety": return [h("path", { key: "diamond", class: look, d: "M0 -6L6 0L0 6L-6 0Z" })];
  }
}
