/** Processor and memory over the last hour, small, with their words. Called by power.ts. */

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

function spark(label: string, { path, now, words }: Line): Child {
  return h("span", { class: "spark", role: "img", "aria-label": words, title: words },
    h("span", { class: "spark-label" }, label),
    h("svg", { class: "spark-line", viewBox: `0 0 ${width} ${height}`, width: String(width), height: String(height), fill: "none", "aria-hidden": "true" },
      h("path", { d: `M0 ${height - 0.5}H${width}`, class: "spark-floor" }),
      h("path", { d: path, class: "spark-path" })),
    h("span", { class: "spark-now" }, now || "–"));
}
