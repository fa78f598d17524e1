/**
 * The file tree: one flat list of rows that says its levels, as assistive technology expects of a tree. Called by
 * files-pane.ts; reads the State, calls commands/tree.
 *
 * One row has the keyboard's focus, and keys are heard by the whole: arrows, Home, End, letters, Enter, F2, Delete. A row
 * is described anew only when something about it changed, so a folder of thousands costs nothing while one types elsewhere.
 */

import type { Context } from "../commands/context";
import * as files from "../commands/files";
import * as tree from "../commands/tree";
import { dropped } from "../commands/uploads";
import { fileSource } from "../state/files";
import { entriesOf, focused, folderAt, rowsOf, type EntryRow, type NoteRow } from "../state/file-tree";
import type { FileEntry, State } from "../state/types";
import { baseName, bytes, exactly, readable } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";

/** "live" is changed here, "disk" only read; null is neither. */
export type Source = ReturnType<typeof fileSource>;

/** What a dragged row carries; other pages know nothing of it. */
const pathType = "application/x-berth-path";

export function treeView(state: State, context: Context, source: Source): VNode {
  const rows = state.home ? rowsOf(state, state.home) : [];
  const entries = entriesOf(rows);
  const stop = focused(state, entries)?.entry.path ?? "";
  return h("div", {
    class: state.explorer.over === state.home && state.home ? "tree drop" : "tree", key: "tree", role: entries.length > 0 ? "tree" : "group", "aria-label": "Files of the workspace",
    "aria-busy": state.tree[state.home]?.status === "listing" ? "true" : "false", ...(entries.length === 0 ? { tabindex: "0" } : {}),
    onkeydown: (event: KeyboardEvent) => keys(context, event),
    oncontextmenu: (event: MouseEvent) => menuAt(context, state.home, event),
    ...dropZone(context, state.home, source),
  },
  state.home ? rows.map((row) => (row.kind === "note" ? note(row) : entry(state, context, row, row.entry.path === stop, source)))
    : h("p", { class: "hint inset", role: "none" }, source ? "" : "Files are read when the workspace runs."));
}

function note(row: NoteRow): VNode {
  return h("p", { key: `note-${row.key}`, class: row.bad ? "problem tree-note" : "hint tree-note", role: "none", style: indent(row.depth) }, row.text);
}

function indent(depth: number): Record<string, string> {
  return { "padding-left": `${12 + depth * 14}px` };
}

const drawn = new WeakMap<FileEntry, { looks: string; node: VNode }>();

function entry(state: State, context: Context, row: EntryRow, stop: boolean, source: Source): VNode {
  const { path } = row.entry;
  const { over, cut, menu } = state.explorer;
  const looks = [row.depth, row.open, row.at, row.of, stop, source, state.activePath === path, over === path, cut === path, menu?.path === path,
    state.tree[path]?.status === "listing"].join();
  const known = drawn.get(row.entry);
  if (known?.looks === looks) return known.node;
  const node = rowNode(state, context, row, stop, source);
  drawn.set(row.entry, { looks, node });
  return node;
}

function rowNode(state: State, context: Context, row: EntryRow, stop: boolean, source: Source): VNode {
  const { entry } = row;
  const isFolder = entry.type === "directory";
  const current = state.activePath === entry.path;
  const classes = ["entry", current && "current", state.explorer.over === entry.path && "drop", state.explorer.cut === entry.path && "cut"].filter(Boolean).join(" ");
  const usable = source !== null || isFolder;
  return h("div", {
    key: entry.path, class: classes, "data-path": entry.path, role: "treeitem", "aria-level": row.depth + 1, "aria-posinset": row.at, "aria-setsize": row.of,
    "aria-selected": current ? "true" : "false", ...(isFolder ? { "aria-expanded": row.open ? "true" : "false" } : {}),
    ...(isFolder && state.tree[entry.path]?.status === "listing" ? { "aria-busy": "true" } : {}), ...(usable ? {} : { "aria-disabled": "true" }),
    tabindex: stop ? "0" : "-1", style: indent(row.depth), title: describe(entry), "aria-label": label(entry), draggable: source === "live" ? "true" : "false",
    onfocus: () => { if (context.store.get().explorer.focus !== entry.path) tree.change(context, { focus: entry.path }); },
    onclick: () => { if (usable) tree.activate(context, row, false); },
    ondblclick: () => { if (usable && !isFolder) tree.activate(context, row, true); },
    oncontextmenu: (event: MouseEvent) => menuAt(context, entry.path, event),
    ondragstart: (event: DragEvent) => lift(event, entry.path),
    ...dropZone(context, entry.path, source),
  },
  h("span", { class: "twist" }, isFolder && icon(row.open ? "open" : "shut")),
  icon(isFolder ? "folder" : entry.type === "symlink" ? "link" : "file"),
  h("span", { class: "entry-text" }, baseName(entry.path)),
  usable && more(context, entry));
}

/** For the mouse and the finger; the keyboard has the menu key. */
function more(context: Context, entry: FileEntry): Child {
  return h("button", {
    type: "button", class: "icon-button entry-more", tabindex: "-1", "aria-label": `More about ${baseName(entry.path)}`, title: "More",
    onclick: (event: MouseEvent) => menuAt(context, entry.path, event),
  }, icon("more"));
}

function label(entry: FileEntry): string {
  const kind = entry.type === "directory" ? ", folder" : entry.type === "symlink" ? ", link" : "";
  return baseName(entry.path) + kind;
}

function describe(entry: FileEntry): string {
  const parts = [readable(entry.path)];
  if (entry.target) parts.push(`→ ${readable(entry.target)}`);
  if (entry.type === "file") parts.push(bytes(entry.size));
  if (entry.mtime) parts.push(exactly(entry.mtime));
  return parts.join("\n");
}

function menuAt(context: Context, path: string, event: MouseEvent): void {
  event.preventDefault();
  event.stopPropagation();
  const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
  // A menu key has no place of its own.
  const at = event.clientX || event.clientY ? { x: event.clientX, y: event.clientY } : { x: box.left + 24, y: box.bottom };
  tree.openMenu(context, path, at);
}

// -- the keyboard

const moves: Record<string, (at: number, last: number) => number> = {
  ArrowDown: (at) => at + 1, ArrowUp: (at) => at - 1, Home: () => 0, End: (_at, last) => last, PageDown: (at) => at + 15, PageUp: (at) => at - 15,
};

function keys(context: Context, event: KeyboardEvent): void {
  const state = context.store.get();
  const row = focused(state, entriesOf(rowsOf(state, state.home)));
  if (!row || event.target instanceof HTMLButtonElement) return;
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
  if (move) return () => tree.walk(context, move);
  switch (event.key) {
    case "ArrowRight": return () => tree.inward(context, row);
    case "ArrowLeft": return () => tree.outward(context, row);
    case "Enter": return () => tree.activate(context, row, true);
    case " ": return () => tree.activate(context, row, false);
    case "F2": case "Delete": return changing(context, row, event.key);
    case "ContextMenu": return () => menuOf(context, row);
    case "F10": return event.shiftKey ? () => menuOf(context, row) : undefined;
    case "Escape": return context.store.get().explorer.cut ? () => tree.change(context, { cut: "" }) : undefined;
    default: return event.key.length === 1 ? () => tree.typeAhead(context, event.key) : undefined;
  }
}

function changing(context: Context, row: EntryRow, key: string): Act {
  if (fileSource(context.store.get()) !== "live") return () => undefined;
  const { path, type } = row.entry;
  return key === "F2" ? () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "rename", path } })
    : () => files.askToRemove(context, path, type);
}

function chordOf(context: Context, row: EntryRow, event: KeyboardEvent): Act {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || fileSource(context.store.get()) !== "live") return undefined;
  if (event.key === "x") return () => tree.cut(context, row.entry.path);
  if (event.key === "v") return () => void tree.paste(context, row.entry.path);
  return undefined;
}

function menuOf(context: Context, row: EntryRow): void {
  const box = document.querySelector('.tree [tabindex="0"]')?.getBoundingClientRect();
  tree.openMenu(context, row.entry.path, { x: (box?.left ?? 0) + 24, y: box?.bottom ?? 0 });
}

// -- dragging

function lift(event: DragEvent, path: string): void {
  event.stopPropagation();
  event.dataTransfer?.setData(pathType, path);
  if (event.dataTransfer) event.dataTransfer.effectAllowed = "move";
}

/** What is dropped on a row goes into its folder, or into the one that the file is in. */
function dropZone(context: Context, path: string, source: Source): Record<string, unknown> {
  if (source !== "live") return {};
  const over = (folder: string): void => {
    if (context.store.get().explorer.over !== folder) tree.change(context, { over: folder });
  };
  return {
    ondragover: (event: DragEvent) => {
      const types = event.dataTransfer?.types ?? [];
      if (!types.includes(pathType) && !types.includes("Files")) return;
      event.preventDefault();
      event.stopPropagation();
      over(folderAt(context.store.get(), path));
    },
    ondragleave: (event: DragEvent) => {
      if (!(event.relatedTarget instanceof Element) || !event.relatedTarget.closest(".tree")) over("");
    },
    ondrop: (event: DragEvent) => {
      event.preventDefault();
      event.stopPropagation();
      over("");
      drop(context, folderAt(context.store.get(), path), event.dataTransfer);
    },
  };
}

function drop(context: Context, folder: string, data: DataTransfer | null): void {
  const moved = data?.getData(pathType);
  if (moved) void tree.moveInto(context, moved, folder);
  else if (data) dropped(context, folder, data);
}
