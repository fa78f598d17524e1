/** The place beside the editor: Activity, Time, Ports, Network, one at a time. Called by workspace.ts. */

import type { Context } from "../commands/context";
import * as time from "../commands/time";
import type { Side, State, Workspace } from "../state/types";
import { activityPane } from "./activity";
import { h, type Child, type VNode } from "./dom";
import { networkPane } from "./network";
import { button } from "./parts";
import { portsPane } from "./ports";
import { timePane } from "./time";

const sides: [Side, string][] = [["activity", "Activity"], ["time", "Time"], ["ports", "Ports"], ["network", "Network"]];

export function sidePane(state: State, context: Context, workspace: Workspace): VNode {
  const [, label] = sides.find(([side]) => side === state.side)!;
  const going = workspace.state.startsWith("delet") || workspace.state === "restoring";
  return h("section", { class: "activity-area", "aria-label": label },
    h("div", { class: "pane-head" },
      h("div", { class: "side-tabs", role: "tablist", "aria-label": "What happened", onkeydown: (event: KeyboardEvent) => walk(state, context, event) },
        sides.map(([side, word]) => tab(state, context, side, word))),
      state.side === "time" && button("Checkpoint", () => time.ask(context, { kind: "checkpoint" }), { class: "small", disabled: going })),
    h("div", { class: "side-body", id: "side-body", role: "tabpanel", "aria-labelledby": `side-${state.side}`, key: state.side },
      content(state, context, workspace)));
}

function content(state: State, context: Context, workspace: Workspace): Child | Child[] {
  switch (state.side) {
    case "activity": return activityPane(state, context, workspace);
    case "time": return timePane(state, context, workspace);
    case "ports": return portsPane(state, context, workspace);
    case "network": return networkPane(state, context, workspace);
  }
}

function tab(state: State, context: Context, side: Side, word: string): VNode {
  const current = state.side === side;
  return h("button", {
    type: "button", role: "tab", key: side, id: `side-${side}`, "aria-selected": current ? "true" : "false", "aria-controls": "side-body",
    tabindex: current ? "0" : "-1", onclick: () => context.store.dispatch({ type: "pane.shown", pane: side }),
  }, word);
}

/** Left and right, as in every row of tabs. */
function walk(state: State, context: Context, event: KeyboardEvent): void {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  event.preventDefault();
  const at = sides.findIndex(([side]) => side === state.side) + (event.key === "ArrowRight" ? 1 : -1);
  const [next] = sides[(at + sides.length) % sides.length]!;
  context.store.dispatch({ type: "pane.shown", pane: next });
  document.getElementById(`side-${next}`)?.focus();
}
