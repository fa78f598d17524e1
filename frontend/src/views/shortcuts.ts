/** The list of keys, made from the table of commands. Called by dialogs.ts. */

import type { Context } from "../commands/context";
import { mac } from "../commands/shortcuts";
import { allCommands, type Command } from "../commands/table";
import { chordWords } from "../state/chords";
import type { State } from "../state/types";
import type { Shown } from "./dialogs";
import { h, type VNode } from "./dom";

export function shortcutsDialog(state: State, context: Context): Shown {
  const workspace = state.page.page === "workspace";
  const keyed = allCommands(state).filter((one) => one.keys && (workspace || (one.group === "Go" && one.applies(state))));
  const groups = [...new Set(keyed.map((one) => one.group))];
  return {
    title: "Keyboard shortcuts", verb: "Close", dismiss: "", wide: true,
    body: [h("div", { class: "shortcuts", tabindex: "0", role: "group", "aria-label": "All shortcuts" },
      groups.map((group) => section(group, keyed.filter((one) => one.group === group))))],
    act: () => context.store.dispatch({ type: "dialog.closed" }),
  };
}

function section(group: string, commands: Command[]): VNode {
  return h("section", { key: group },
    h("h3", null, group),
    h("dl", null, commands.flatMap((one) => [
      h("dt", { key: `t-${one.id}` }, one.title, one.where && h("span", { class: "hint" }, ` ${one.where}`)),
      h("dd", { key: `d-${one.id}` }, (one.keys ?? []).flatMap((chord, at) => [at > 0 && " or ", h("kbd", null, chordWords(chord, mac))])),
    ])));
}
