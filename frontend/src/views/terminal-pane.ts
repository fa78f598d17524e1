/** The terminals: tabs, who types, and the screen in front. Reads the State; calls commands/terminals. */

import type { Context } from "../commands/context";
import * as terminals from "../commands/terminals";
import type { State, TerminalTab, Workspace } from "../state/types";
import { isLeftAlone, outcomeWords, readable } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";
import { button, iconButton } from "./parts";

export function terminalPane(state: State, context: Context, workspace: Workspace): VNode {
  const active = state.terminals.find((tab) => tab.id === state.activeTerminal);
  const running = workspace.state === "running";
  return h("section", { class: "terminal-area", "aria-label": "Terminals" },
    h("div", { class: "tabs", role: "toolbar", "aria-label": "Terminals" },
      state.terminals.map((tab, at) => tabButton(state, context, tab, at + 1)),
      iconButton("plus", "New terminal", () => void terminals.openShell(context), { disabled: !running || state.opening }),
      h("div", { class: "tabs-rest" }, active && notes(state, active))),
    h("div", { class: "screens", key: "screens", mount: panelPlace },
      active ? screen(active) : noTerminal(state, context, running)));
}

/** The place a terminal will have is known before there is one, so that its shell starts with the right size. */
function panelPlace(element: HTMLElement): () => void {
  terminals.usePanel(element);
  return () => terminals.usePanel(null);
}

function tabButton(state: State, context: Context, tab: TerminalTab, number: number): VNode {
  const current = tab.id === state.activeTerminal;
  const title = readable(tab.title);
  return h("div", { class: current ? "tab current" : "tab", key: tab.id },
    h("button", {
      type: "button", class: "tab-name", title, "aria-current": current ? "true" : "false",
      onclick: () => { context.store.dispatch({ type: "terminal.activated", id: tab.id }); terminals.terminalOf(tab.id)?.focus(); },
    }, h("span", { class: "tab-number" }, number), h("span", { class: "tab-title" }, title)),
    iconButton("close", `Close terminal ${number}`, () => terminals.close(context, tab.id)));
}

function notes(state: State, tab: TerminalTab): Child[] {
  const other = tab.holder && !tab.mine && tab.holder !== state.page.user;
  return [
    tab.status === "waiting" && h("span", { class: "tab-note", role: "status" }, waitingWords(state)),
    tab.status === "ended" && ended(tab),
    other && h("span", { class: "tab-note" }, icon("keyboard"), `${tab.holder} holds the keyboard`),
    other && button("Take", () => terminals.take(tab.id), { class: "small" }),
  ];
}

function waitingWords(state: State): string {
  const asleep = isLeftAlone(state.workspaces[state.page.workspace]?.state);
  return asleep ? "At rest; goes on when the workspace runs" : "Connection lost; reconnecting";
}

function ended(tab: TerminalTab): VNode {
  const words = tab.outcome ? outcomeWords(tab.outcome) : { text: "", tone: "rest" };
  return h("span", { class: `tab-note tone-${words.tone}`, role: "status" }, words.text ? `Ended: ${words.text}` : "Ended");
}

function screen(tab: TerminalTab): VNode {
  return h("div", { class: "screen-host", key: `screen-${tab.id}`, hosted: true,
    mount: (element) => terminals.terminalOf(tab.id)?.showIn(element) });
}

function noTerminal(state: State, context: Context, running: boolean): VNode {
  if (!running) return h("div", { class: "at-rest", key: "asleep" }, h("p", { class: "muted" }, "Terminals open when the workspace runs."));
  return h("div", { class: "at-rest", key: "none" },
    state.terminalsKnown && button(state.opening ? "Opening" : "New terminal", () => void terminals.openShell(context), { class: "primary", disabled: state.opening }));
}
