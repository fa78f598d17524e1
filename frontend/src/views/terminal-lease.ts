/** Who types in a terminal: on its tab, in its head, and the question that its holder answers. Reads the State; calls commands. */

import * as terminals from "../commands/terminals";
import type { State, TerminalTab, Workspace } from "../state/types";
import { isLeftAlone, outcomeWords, readable } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";
import { button } from "./parts";

export function titleOf(tab: TerminalTab): string {
  return tab.name || readable(tab.title);
}

/** What a person is to know about a terminal at a glance, and what they may do about its keyboard. */
export function notesOf(state: State, workspace: Workspace, tab: TerminalTab): Child[] {
  if (tab.status === "waiting") return [h("span", { class: "tab-note", role: "status" }, waitingWords(state))];
  if (tab.status === "ended") return [ended(tab)];
  return [recorded(tab), ...keyboard(state, workspace, tab)];
}

function recorded(tab: TerminalTab): Child {
  return tab.recordedBy && h("span", { class: "tab-note recording", title: `Recorded by ${tab.recordedBy}` }, icon("record"), "Recording");
}

export function heldByOther(state: State, tab: TerminalTab): boolean {
  return Boolean(tab.holder) && !tab.mine && !(tab.holder === state.page.user && tab.mayTake);
}

function keyboard(state: State, workspace: Workspace, tab: TerminalTab): Child[] {
  const may = workspace.role !== "viewer";
  const words = (text: string): VNode => h("span", { class: "tab-note", role: "status", key: "holder" }, icon("keyboard"), text);
  const take = button("Take", () => terminals.say(tab.id, { take: true }), { class: "small", key: "take", "aria-label": "Take the keyboard" });
  if (tab.mine) return tab.present.length > 1 || tab.starter
    ? [words("You hold the keyboard"), button("Give back", () => terminals.say(tab.id, { release: true }), { class: "small", key: "back" })] : [];
  if (heldByOther(state, tab)) return [
    words(`${tab.holder} holds the keyboard`),
    tab.declinedBy && h("span", { class: "tab-note", role: "status", key: "no" }, `${tab.declinedBy} declined`),
    may && (tab.asked
      ? h("span", { class: "tab-note", key: "asked" }, "Asked")
      : button("Ask", () => terminals.say(tab.id, { ask: true }), { class: "small", key: "ask", "aria-label": "Ask for the keyboard" })),
    may && tab.mayTake && take,
  ];
  if (tab.starter && !tab.holder && tab.status === "live") return [words(`Watching ${tab.starter}`), may && take];
  return [];
}

function waitingWords(state: State): string {
  const asleep = isLeftAlone(state.workspaces[state.page.workspace]?.state);
  return asleep ? "At rest; goes on when the workspace runs" : "Connection lost; reconnecting";
}

function ended(tab: TerminalTab): VNode {
  const words = tab.outcome ? outcomeWords(tab.outcome) : { text: "", tone: "rest" };
  return h("span", { class: `tab-note tone-${words.tone}`, role: "status" }, words.text ? `Ended: ${words.text}` : "Ended");
}

/** Over the screen, so that no line moves while somebody types. */
export function questions(tab: TerminalTab): Child {
  if (!tab.mine || tab.asks.length === 0) return null;
  return h("div", { class: "terminal-ask", role: "alert", key: "asks" }, tab.asks.map((name) =>
    h("p", { key: name }, h("span", null, `${name} asks for the keyboard`),
      button("Give", () => terminals.say(tab.id, { give: name }), { class: "small primary", "aria-label": `Give the keyboard to ${name}` }),
      button("Decline", () => terminals.say(tab.id, { decline: name }), { class: "small", "aria-label": `Decline ${name}'s request` }))));
}
