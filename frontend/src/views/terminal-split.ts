/** The terminals that share a tab: their places, and the lines between them. Reads the State; calls commands/terminals. */

import type { Context } from "../commands/context";
import * as terminals from "../commands/terminals";
import { leastShare, shareAt } from "../state/panes";
import type { PaneSplit, PaneTree, State, TerminalGroup, TerminalTab, Workspace } from "../state/types";
import { h, type VNode } from "./dom";
import { iconButton } from "./parts";
import { findBar } from "./terminal-find";
import { notesOf, questions, titleOf } from "./terminal-lease";

interface Looks { state: State; context: Context; workspace: Workspace; group: TerminalGroup }

const nudge = 0.04;

export function paneTree(state: State, context: Context, workspace: Workspace, group: TerminalGroup): VNode {
  return branch({ state, context, workspace, group }, group.tree, "");
}

function branch(looks: Looks, tree: PaneTree, path: string): VNode {
  if (typeof tree === "string") return leaf(looks, tree);
  const grow = (share: number): Record<string, string> => ({ "flex-grow": String(share) });
  return h("div", { class: `split ${tree.way}`, key: `split-${path}-${tree.way}` },
    h("div", { class: "split-side", style: grow(tree.share), key: "a" }, branch(looks, tree.a, `${path}a`)),
    line(looks, tree, path),
    h("div", { class: "split-side", style: grow(1 - tree.share), key: "b" }, branch(looks, tree.b, `${path}b`)));
}

function leaf({ state, context, workspace, group }: Looks, id: string): VNode {
  const tab = state.terminals.find((one) => one.id === id);
  const alone = typeof group.tree === "string";
  return h("div", { class: id === state.activeTerminal && !alone ? "pane active" : "pane", key: `pane-${id}` },
    !alone && tab && head(state, context, workspace, tab),
    h("div", { class: "screen-host", key: `screen-${id}`, hosted: true, mount: (element) => terminals.terminalOf(id)?.showIn(element) }),
    tab && questions(tab),
    state.finding === id && findBar(state, context, id));
}

function head(state: State, context: Context, workspace: Workspace, tab: TerminalTab): VNode {
  return h("div", { class: "terminal-head", key: "head" },
    h("span", { class: "tab-title" }, titleOf(tab)),
    h("div", { class: "head-notes" }, notesOf(state, workspace, tab)),
    iconButton("close", `Close ${titleOf(tab)}`, () => terminals.close(context, tab.id)));
}

function line({ context, group }: Looks, split: PaneSplit, path: string): VNode {
  const share = (wanted: number): void => context.store.dispatch({ type: "panes.shared", group: group.id, path, share: wanted });
  // Keys may come faster than the page is drawn: each goes on from where the last one led.
  const now = (): number =>
    shareAt(context.store.get().terminalGroups.find((one) => one.id === group.id)?.tree ?? group.tree, path);
  const sideways = split.way === "row";
  return h("div", {
    class: "split-line", key: "line", role: "separator", tabindex: "0", "aria-label": "Place between terminals",
    "aria-orientation": sideways ? "vertical" : "horizontal", "aria-valuenow": Math.round(split.share * 100),
    "aria-valuemin": leastShare * 100, "aria-valuemax": (1 - leastShare) * 100,
    onpointerdown: (event: PointerEvent) => drag(event, sideways, share),
    onkeydown: (event: KeyboardEvent) => {
      const [less, more] = sideways ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
      if (event.key !== less && event.key !== more) return;
      event.preventDefault();
      share(now() + (event.key === more ? nudge : -nudge));
    },
  });
}

function drag(event: PointerEvent, sideways: boolean, share: (wanted: number) => void): void {
  const element = event.currentTarget as HTMLElement;
  const box = element.parentElement!.getBoundingClientRect();
  element.setPointerCapture(event.pointerId);
  const move = (to: PointerEvent): void =>
    share(sideways ? (to.clientX - box.left) / box.width : (to.clientY - box.top) / box.height);
  element.addEventListener("pointermove", move);
  element.addEventListener("lostpointercapture", () => element.removeEventListener("pointermove", move), { once: true });
}
