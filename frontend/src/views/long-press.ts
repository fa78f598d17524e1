/**
 * A finger that stays means what a right click means. Called by tree-row.ts; knows nothing of what it opens.
 *
 * Not every browser tells of it as a context menu, and where a row may be dragged none does. There is one finger at a time.
 */

import type { Props } from "./dom";

const staysMs = 500;
const strays = 10;

let held: { timer: ReturnType<typeof setTimeout>; x: number; y: number } | null = null;
/** The click that ends it is part of it. */
let answered = false;

export function longPress(act: (at: { x: number; y: number }) => void): Props {
  return {
    onpointerdown: (event: PointerEvent) => {
      letGo();
      answered = false;
      if (event.pointerType !== "touch" || !event.isPrimary) return;
      const at = { x: event.clientX, y: event.clientY };
      held = { ...at, timer: setTimeout(() => { held = null; answered = true; act(at); }, staysMs) };
    },
    onpointermove: (event: PointerEvent) => {
      if (held && Math.hypot(event.clientX - held.x, event.clientY - held.y) > strays) letGo();
    },
    onpointerup: letGo,
    onpointercancel: letGo,
  };
}

/** Whether this click is the end of a finger's stay, and so no click. */
export function endsLongPress(): boolean {
  const was = answered;
  answered = false;
  return was;
}

function letGo(): void {
  if (held) clearTimeout(held.timer);
  held = null;
}
