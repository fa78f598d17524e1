/**
 * The file tree: one flat list of rows that says its levels, as assistive technology expects of a tree. Called by
 * files-pane.ts; reads the State, calls commands/tree. Its rows are tree-row.ts, its keys tree-keys.ts, its drags tree-drag.ts.
 */

import type { Context } from "../commands/context";
import * as moving from "../commands/moving";
import * as tree from "../commands/tree";
import { fileSource } from "../state/files";
import { entriesOf, focused, rowsOf, type NoteRow } from "../state/file-tree";
import type { State } from "../state/types";
import { h, type Child, type VNode } from "./dom";
import { button, iconButton } from "./parts";
import { dropZone } from "./tree-drag";
import { keys } from "./tree-keys";
import { entryRow, indent, menuAt, type Scene } from "./tree-row";

/** "live" is changed here, "disk" only read; null is neither. */
export type Source = ReturnType<typeof fileSource>;

export function treeView(state: State, context: Context, source: Source): VNode {
  const rows = state.home ? rowsOf(state, state.home) : [];
  const entries = entriesOf(rows);
  const scene: Scene = {
    state, context, source, stop: focused(state, entries)?.entry.path ?? "", chosen: new Set(state.explorer.chosen), cut: new Set(state.explorer.cut),
  };
  return h("div", {
    class: state.explorer.over === state.home && state.home ? "tree drop" : "tree", key: "tree", "aria-label": "Files of the workspace",
    ...(entries.length > 0 ? { role: "tree", "aria-multiselectable": "true" } : { role: "group", tabindex: "0" }),
    "aria-busy": state.tree[state.home]?.status === "listing" ? "true" : "false",
    onkeydown: (event: KeyboardEvent) => keys(context, event),
    oncontextmenu: (event: MouseEvent) => menuAt(context, state.home, event),
    ...dropZone(context, state.home, source),
  },
  state.home ? rows.map((row) => (row.kind === "note" ? note(row) : entryRow(scene, row)))
    : h("p", { class: "hint inset", role: "none" }, source ? "" : "Files are read when the workspace runs."));
}

function note(row: NoteRow): VNode {
  return h("p", { key: `note-${row.key}`, class: row.bad ? "problem tree-note" : "hint tree-note", role: "none", style: indent(row.depth) }, row.text);
}

/** How many are chosen, and what may be done with them: for the finger, which has no Delete key, and for who reads by ear. */
export function chosenBar(state: State, context: Context, source: Source): Child {
  const { chosen } = state.explorer;
  const first = chosen[0];
  if (!first) return null;
  const live = source === "live";
  return h("div", { class: "chosen-bar", key: "chosen", role: "group", "aria-label": "Chosen entries" },
    h("div", { class: "chosen-head" }, h("p", { role: "status" }, `${chosen.length} chosen`),
      iconButton("close", "Choose none", () => { tree.chooseNone(context); tree.stand(context, state.explorer.focus); })),
    live && button("Move", () => moving.askToMove(context, first), { class: "small" }),
    source && button(tree.downloadVerb(state, first), () => tree.download(context, first), { class: "small" }),
    live && button("Delete", () => moving.askToRemove(context, first), { class: "small" }));
}
