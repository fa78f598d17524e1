/** The keys of the file tree, heard by the whole of it: one row has the keyboard's focus. Called by tree.ts; calls commands. */

import type { Context } from "../commands/context";
import * as moving from "../commands/moving";
import * as tree from "../commands/tree";
import { fileSource } from "../state/files";
import { entriesOf, focused, rowsOf, type EntryRow } from "../state/file-tree";

const moves: Record<string, tree.Step> = {
  ArrowDown: (at) => at + 1, ArrowUp: (at) => at - 1, Home: () => 0, End: (_at, last) => last, PageDown: (at) => at + 15, PageUp: (at) => at - 15,
};

export function keys(context: Context, event: KeyboardEvent): void {
  const state = context.store.get();
  const row = focused(state, entriesOf(rowsOf(state, state.home)));
  if (!row || event.target instanceof HTMLButtonElement || event.target instanceof HTMLInputElement) return;
  const act = chordOf(context, row, event) ?? plain(context, row, event);
  if (event.key.length > 1) tree.endTyping();
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

type Act = (() => void) | undefined;

function plain(context: Context, row: EntryRow, event: KeyboardEvent): Act {
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const move = moves[event.key];
  if (move) return () => (event.shiftKey ? tree.reachBy : tree.walk)(context, move);
  switch (event.key) {
    case "ArrowRight": return () => tree.inward(context, row);
    case "ArrowLeft": return () => tree.outward(context, row);
    case "Enter": return () => tree.activate(context, row, true);
    case " ": return () => tree.activate(context, row, false);
    case "F2": case "Delete": return changing(context, row, event.key);
    case "ContextMenu": return () => menuOf(context, row);
    case "F10": return event.shiftKey ? () => menuOf(context, row) : undefined;
    case "Escape": return putAway(context);
    default: return event.key.length === 1 ? () => tree.typeAhead(context, event.key) : undefined;
  }
}

function putAway(context: Context): Act {
  const { cut, chosen } = context.store.get().explorer;
  return cut.length + chosen.length > 0 ? () => tree.chooseNone(context) : undefined;
}

function changing(context: Context, row: EntryRow, key: string): Act {
  if (fileSource(context.store.get()) !== "live") return () => undefined;
  const { path } = row.entry;
  return key === "F2" ? () => moving.rename(context, path) : () => moving.askToRemove(context, path);
}

function chordOf(context: Context, row: EntryRow, event: KeyboardEvent): Act {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return undefined;
  const { path } = row.entry;
  const move = moves[event.key];
  if (move) return () => tree.walkBy(context, move);
  if (event.key === " ") return () => tree.choose(context, path);
  if (event.key === "a") return () => tree.chooseAll(context);
  if (fileSource(context.store.get()) !== "live") return undefined;
  if (event.key === "x") return () => moving.cut(context, path);
  if (event.key === "v") return () => void moving.paste(context, path);
  return undefined;
}

function menuOf(context: Context, row: EntryRow): void {
  const box = document.querySelector('.tree [tabindex="0"]')?.getBoundingClientRect();
  tree.openMenu(context, row.entry.path, { x: (box?.left ?? 0) + 24, y: box?.bottom ?? 0 });
}
