/** Processor and memory over the last hour, small, with their words. Called by power.ts and home-table.ts. */

import type { Context } from "../commands/context";
import * as metrics from "../commands/metrics";
import { cpuLine, height, memoryLine, width, type Line } from "../state/metrics";
import type { State } from "../state/types";
import { h, type Child, type VNode } from "./dom";

export function sparklines(state: State, context: Context): VNode {
  const known = state.metrics;
  return h("div", { class: "sparklines", key: "sparklines", mount: () => metrics.watch(context) },
    known && known.history.length + (known.now ? 1 : 0) > 0 && [spark("cpu", cpuLine(known)), spark("mem", memoryLine(known))]);
}

/** In a row of the list: the drawings alone, with their words to hover and to hear. */
export function rowSparks(state: State, id: string): Child {
  const known = state.hours[id];
  return h("span", { class: "row-sparks", key: "sparks" }, known && known.history.length > 1 && [cpuLine(known), memoryLine(known)].map((line) =>
    h("span", { role: "img", "aria-label": line.words, title: line.words }, drawing(line))));
}

function spark(label: string, line: Line): Child {
  return h("span", { class: "spark", role: "img", "aria-label": line.words, title: line.words },
    h("span", { class: "spark-label" }, label), drawing(line), h("span", { class: "spark-now" }, line.now || "–"));
}

function drawing({ path, area, end }: Line): VNode {
  return h("svg", { class: "spark-line", viewBox: `0 0 ${width} ${height}`, width: String(width), height: String(height), fill: "none", "aria-hidden": "true" },
      h("rect", { class: "spark-box", width: String(width), height: String(height), rx: "3" }),
      area && h("path", { d: area, class: "spark-area", key: "area" }),
      path && h("path", { d: path, class: "spark-path", key: "path" }),
      end && h("circle", { cx: end[0].toFixed(1), cy: end[1].toFixed(1), r: "2", class: "spark-end", key: "end" }));
}
