/** The lines between panes, dragged by pointer or moved by arrow keys. Called by workspace.ts; keeps sizes in the browser. */

import type { Context } from "../commands/context";
import { defaultLayout } from "../state/initial";
import type { Layout } from "../state/types";
import { h, type VNode } from "./dom";

/** Smallest and largest size in CSS pixels, and which way a drag makes the pane grow. */
const rules: Record<keyof Layout, { min: number; max: number; sign: 1 | -1; vertical: boolean }> = {
  files: { min: 140, max: 560, sign: 1, vertical: true },
  activity: { min: 200, max: 720, sign: -1, vertical: true },
  terminal: { min: 96, max: 900, sign: -1, vertical: false },
};

export function divider(context: Context, part: keyof Layout, label: string, size: number): VNode {
  const rule = rules[part];
  return h("div", {
    class: `divider divider-${part}`, role: "separator", tabindex: "0", "aria-label": label,
    "aria-orientation": rule.vertical ? "vertical" : "horizontal",
    "aria-valuenow": Math.round(size), "aria-valuemin": rule.min, "aria-valuemax": rule.max,
    onpointerdown: (event: PointerEvent) => drag(context, part, event),
    onkeydown: (event: KeyboardEvent) => nudge(context, part, event),
  });
}

function resize(context: Context, part: keyof Layout, size: number): void {
  const { min, max } = rules[part];
  context.store.dispatch({ type: "layout.changed", layout: { [part]: Math.min(max, Math.max(min, Math.round(size))) } });
  localStorage.setItem("berth.layout", JSON.stringify(context.store.get().layout));
}

function drag(context: Context, part: keyof Layout, event: PointerEvent): void {
  const { vertical, sign } = rules[part];
  const line = event.currentTarget as HTMLElement;
  const from = vertical ? event.clientX : event.clientY;
  const size = context.store.get().layout[part];
  line.setPointerCapture(event.pointerId);
  const move = (to: PointerEvent): void => resize(context, part, size + sign * ((vertical ? to.clientX : to.clientY) - from));
  line.addEventListener("pointermove", move);
  line.addEventListener("lostpointercapture", () => line.removeEventListener("pointermove", move), { once: true });
}

function nudge(context: Context, part: keyof Layout, event: KeyboardEvent): void {
  const { vertical, sign } = rules[part];
  const [less, more] = vertical ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
  const way = event.key === more ? sign : event.key === less ? -sign : 0;
  if (way === 0) return;
  event.preventDefault();
  resize(context, part, context.store.get().layout[part] + way * 16);
}

export function savedLayout(): Layout {
  try {
    return { ...defaultLayout, ...(JSON.parse(localStorage.getItem("berth.layout") ?? "{}") as Partial<Layout>) };
  } catch {
    return defaultLayout;
  }
}
