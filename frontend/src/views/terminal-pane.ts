/** The terminals: tabs, who types, and the screens in front. Reads the State; calls commands/terminals. */

import type { Context } from "../commands/context";
import * as terminals from "../commands/terminals";
import { groupOf, leavesOf } from "../state/panes";
import type { State, TerminalGroup, TerminalTab, Workspace } from "../state/types";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";
import { button, iconButton } from "./parts";
import { heldByOther, notesOf, titleOf } from "./terminal-lease";
import { otherTerminals, terminalMenu } from "./terminal-menu";
import { paneTree } from "./terminal-split";

export function terminalPane(state: State, context: Context, workspace: Workspace): VNode {
  const active = state.terminals.find((tab) => tab.id === state.activeTerminal);
  const group = groupOf(state.terminalGroups, state.activeTerminal);
  const running = workspace.state === "running";
  return h("section", { class: "terminal-area", "aria-label": "Terminals" },
    h("div", { class: "terminal-bar" },
      h("div", { class: "tabs", role: "toolbar", "aria-label": "Terminals" },
        state.terminalGroups.map((one, at) => tabButton(state, context, one, at + 1)),
        iconButton("plus", "New terminal", () => void terminals.openShell(context), { disabled: !running || state.opening || workspace.role === "viewer" })),
      h("div", { class: "tabs-rest" },
        active && group && typeof group.tree === "string" && notesOf(state, workspace, active),
        otherTerminals(state, context, workspace),
        active && terminalMenu(state, context, workspace, active))),
    h("div", { class: "screens", key: "screens", mount: panelPlace },
      group ? paneTree(state, context, workspace, group) : noTerminal(state, context, workspace)));
}

/** The place a terminal will have is known before there is one, so that its shell starts with the right size. */
function panelPlace(element: HTMLElement): () => void {
  terminals.usePanel(element);
  return () => terminals.usePanel(null);
}

function tabButton(state: State, context: Context, group: TerminalGroup, number: number): VNode {
  const tabs = leavesOf(group.tree).map((id) => state.terminals.find((tab) => tab.id === id)).filter((tab) => tab !== undefined);
  const current = tabs.some((tab) => tab.id === state.activeTerminal);
  const shown = tabs.find((tab) => tab.id === state.activeTerminal) ?? tabs[0];
  if (!shown) return h("div", { key: group.id });
  const title = titleOf(shown) + (shown.starter ? ` · ${shown.starter}` : "");
  return h("div", { class: current ? "tab current" : "tab", key: group.id },
    h("button", {
      type: "button", class: "tab-name", title, "aria-current": current ? "true" : "false",
      onclick: () => { context.store.dispatch({ type: "terminal.activated", id: shown.id }); requestAnimationFrame(() => terminals.terminalOf(shown.id)?.focus()); },
      ondblclick: () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "rename-terminal", id: shown.id } }),
    },
    h("span", { class: "tab-number" }, number), h("span", { class: "tab-title" }, title),
    tabs.length > 1 && h("span", { class: "tab-count", title: `${tabs.length} terminals` }, `+${tabs.length - 1}`),
    ...marks(state, tabs)),
    iconButton("close", `Close terminal ${number}`, () => tabs.length === 1 ? terminals.close(context, shown.id) : closeShown(context, shown)));
}

/** Of a shared tab the one in front goes first: nothing closes that is not seen. */
function closeShown(context: Context, tab: TerminalTab): void {
  context.store.dispatch({ type: "terminal.activated", id: tab.id });
  terminals.close(context, tab.id);
}

function marks(state: State, tabs: TerminalTab[]): Child[] {
  const held = tabs.find((tab) => heldByOther(state, tab));
  const asked = tabs.find((tab) => tab.mine && tab.asks.length > 0);
  const recorded = tabs.find((tab) => tab.recordedBy);
  const mark = (name: string, words: string, tone = ""): VNode =>
    h("span", { class: `tab-mark ${tone}`.trim(), role: "img", "aria-label": words, title: words, key: name }, icon(name));
  return [
    held && mark("keyboard", `${held.holder} holds the keyboard`),
    asked && mark("keyboard", `${asked.asks.join(", ")} asks for the keyboard`, "tone-busy"),
    recorded && mark("record", `Recorded by ${recorded.recordedBy}`, "tone-bad"),
    tabs.some((tab) => tab.rang) && mark("bell", "It rang"),
  ];
}

function noTerminal(state: State, context: Context, workspace: Workspace): VNode {
  const running = workspace.state === "running";
  if (!running) return h("div", { class: "at-rest", key: "asleep" }, h("p", { class: "muted" }, "Terminals open when the workspace runs."));
  if (workspace.role === "viewer") return h("div", { class: "at-rest", key: "viewer" }, h("p", { class: "muted" }, "Join a running terminal from the list to watch it."));
  return h("div", { class: "at-rest", key: "none" },
    state.terminalsKnown && button(state.opening ? "Opening" : "New terminal", () => void terminals.openShell(context), { class: "primary", disabled: state.opening }));
}
