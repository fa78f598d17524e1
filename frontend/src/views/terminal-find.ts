/** The small bar that searches in a terminal. Calls commands/terminals; what is found is the State's. */

import type { Context } from "../commands/context";
import * as terminals from "../commands/terminals";
import type { State } from "../state/types";
import { h, type VNode } from "./dom";
import { iconButton } from "./parts";

export function findBar(state: State, context: Context, id: string): VNode {
  const search = (form: HTMLFormElement, forward: boolean, typing: boolean): void => {
    const data = new FormData(form);
    const how = { caseSensitive: data.has("case"), regex: data.has("regex") };
    terminals.terminalOf(id)?.find(String(data.get("text") ?? ""), forward, how, typing);
  };
  const close = (): void => {
    context.store.dispatch({ type: "terminal.sought", id: "" });
    terminals.terminalOf(id)?.endFind();
  };
  const formOf = (event: Event): HTMLFormElement => (event.currentTarget as HTMLElement).closest("form")!;
  return h("form", {
    class: "terminal-find", role: "search", key: "find", "aria-label": "Search in the terminal",
    onsubmit: (event: Event) => { event.preventDefault(); search(event.currentTarget as HTMLFormElement, false, false); },
    oninput: (event: Event) => search(event.currentTarget as HTMLFormElement, false, true),
    onkeydown: (event: KeyboardEvent) => {
      if (event.key === "Escape") { event.preventDefault(); close(); }
      if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); search(event.currentTarget as HTMLFormElement, true, false); }
    },
  },
  h("input", { name: "text", "aria-label": "Search for", placeholder: "Find", autocomplete: "off", spellcheck: "false",
    mount: (element) => element.focus() }),
  h("output", { "aria-live": "polite" }, foundWords(state)),
  flag("case", "Aa", "Match case"), flag("regex", ".*", "Regular expression"),
  iconButton("up", "Earlier", (event) => search(formOf(event), false, false)),
  iconButton("open", "Later", (event) => search(formOf(event), true, false)),
  iconButton("close", "Close the search", close));
}

function flag(name: string, text: string, label: string): VNode {
  return h("label", { class: "find-flag", title: label }, h("input", { type: "checkbox", name, "aria-label": label }), h("span", { "aria-hidden": "true" }, text));
}

function foundWords({ found }: State): string {
  if (found.of < 0) return "";
  if (found.of === 0) return "Nothing found";
  return found.at > 0 ? `${found.at} of ${found.of}` : `${found.of} found`;
}
