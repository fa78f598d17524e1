/**
 * One row of the file tree: an entry, or the field in which its name is written anew. Called by tree.ts; calls commands.
 *
 * A row is described anew only when something about it changed, so a folder of thousands costs nothing while one types elsewhere.
 */

import type { Context } from "../commands/context";
import * as files from "../commands/files";
import * as moving from "../commands/moving";
import * as tree from "../commands/tree";
import type { EntryRow } from "../state/file-tree";
import type { FileEntry, State } from "../state/types";
import { baseName, bytes, exactly, readable } from "../state/words";
import { h, type Child, type Props, type VNode } from "./dom";
import { icon } from "./icons";
import { endsLongPress, longPress } from "./long-press";
import { withInitial } from "./parts";
import type { Source } from "./tree";
import { dropZone, lift } from "./tree-drag";

/** What all rows of one drawing share: the row that Tab leads to, and those chosen. */
export interface Scene { state: State; context: Context; source: Source; stop: string; chosen: Set<string>; cut: Set<string> }

export function indent(depth: number): Record<string, string> {
  return { "padding-left": `${12 + depth * 14}px` };
}

const drawn = new WeakMap<FileEntry, { looks: string; node: VNode }>();

export function entryRow(scene: Scene, row: EntryRow): VNode {
  const { state, source, stop, chosen, cut } = scene;
  const { path } = row.entry;
  const { over, menu, renaming } = state.explorer;
  const looks = [row.depth, row.open, row.at, row.of, stop === path, source, state.activePath === path, over === path, cut.has(path), chosen.has(path), menu?.path === path,
    state.tree[path]?.status === "listing", renaming?.path === path && JSON.stringify(renaming)].join();
  const known = drawn.get(row.entry);
  if (known?.looks === looks) return known.node;
  const node = rowNode(scene, row);
  drawn.set(row.entry, { looks, node });
  return node;
}

function rowNode(scene: Scene, row: EntryRow): VNode {
  const { state, context, source } = scene;
  const { entry } = row;
  const isFolder = entry.type === "directory";
  const usable = source !== null || isFolder;
  const renaming = state.explorer.renaming?.path === entry.path ? state.explorer.renaming : null;
  return h("div", {
    ...identity(scene, row), ...(usable ? {} : { "aria-disabled": "true" }), draggable: source === "live" && !renaming ? "true" : "false",
    onfocus: () => { if (context.store.get().explorer.focus !== entry.path) tree.change(context, { focus: entry.path }); },
    onclick: (event: MouseEvent) => { if (!renaming && !endsLongPress()) clicked(context, row, event, usable); },
    ondblclick: (event: MouseEvent) => { if (usable && !isFolder && !renaming && !choosing(event)) tree.activate(context, row, true); },
    oncontextmenu: (event: MouseEvent) => { if (!renaming) menuAt(context, entry.path, event, (event as PointerEvent).pointerType === "touch"); },
    ...longPress((at) => { if (!renaming) tree.openMenu(context, entry.path, { ...at, byFinger: true }); }),
    ondragstart: (event: DragEvent) => lift(context, event, entry.path),
    ...dropZone(context, entry.path, source),
  },
  h("span", { class: "twist" }, isFolder && icon(row.open ? "open" : "shut")),
  icon(isFolder ? "folder" : entry.type === "symlink" ? "link" : "file"),
  renaming ? nameField(context, entry.path, renaming) : h("span", { class: "entry-text" }, baseName(entry.path)),
  renaming?.problem && h("p", { class: "problem", key: "problem", id: "rename-problem", role: "alert" }, renaming.problem),
  usable && !renaming && more(context, entry));
}

/** What it is among the others, for eyes and for assistive technology. */
function identity({ state, stop, chosen, cut }: Scene, row: EntryRow): Props {
  const { path, type } = row.entry;
  const { over, renaming } = state.explorer;
  const current = state.activePath === path;
  const classes = ["entry", current && "current", chosen.has(path) && "chosen", over === path && "drop", cut.has(path) && "cut", renaming?.path === path && "renaming"];
  return {
    key: path, class: classes.filter(Boolean).join(" "), "data-path": path, role: "treeitem", "aria-level": row.depth + 1, "aria-posinset": row.at, "aria-setsize": row.of,
    "aria-selected": chosen.has(path) ? "true" : "false", ...(current ? { "aria-current": "true" } : {}),
    ...(type === "directory" ? { "aria-expanded": row.open ? "true" : "false" } : {}),
    ...(type === "directory" && state.tree[path]?.status === "listing" ? { "aria-busy": "true" } : {}),
    tabindex: stop === path ? "0" : "-1", style: indent(row.depth), title: describe(row.entry), "aria-label": label(row.entry),
  };
}

/** A finger has no Ctrl key: once something is chosen, it chooses. */
function choosing(event: MouseEvent): boolean {
  return event.ctrlKey || event.metaKey || event.shiftKey;
}

function clicked(context: Context, row: EntryRow, event: MouseEvent, usable: boolean): void {
  const { path } = row.entry;
  const touched = (event as PointerEvent).pointerType === "touch" && context.store.get().explorer.chosen.length > 0;
  if (event.shiftKey) tree.reach(context, path);
  else if (choosing(event) || touched) tree.choose(context, path);
  else if (usable) tree.activate(context, row, false);
}

/** Enter takes the name, Escape leaves it as it was; who clicks elsewhere has finished, too. */
function nameField(context: Context, path: string, { problem, busy }: { problem: string; busy: boolean }): VNode {
  const name = baseName(path);
  let finished = false;
  const end = (act: () => void): void => { finished = true; act(); };
  return h("input", {
    key: "name", class: "entry-name", "aria-label": `New name of ${name}`, autocomplete: "off", spellcheck: "false", readonly: busy,
    ...(problem ? { "aria-invalid": "true", "aria-describedby": "rename-problem" } : {}),
    mount: (element) => {
      withInitial(name)(element);
      element.focus();
      (element as HTMLInputElement).setSelectionRange(0, stem(name));
    },
    onkeydown: (event: KeyboardEvent) => {
      event.stopPropagation();
      if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
      event.preventDefault();
      const { value } = event.currentTarget as HTMLInputElement;
      if (event.key === "Enter") void moving.renameTo(context, path, value).then(() => backToRow(context));
      else end(() => { moving.keepName(context); backToRow(context); });
    },
    onblur: (event: FocusEvent) => {
      const { value } = event.currentTarget as HTMLInputElement;
      if (finished || busy || !document.hasFocus()) return;
      if (problem || value === name) moving.keepName(context);
      else void moving.renameTo(context, path, value);
    },
  });
}

/** A name that was taken goes with its field: the keyboard then stands on the row. */
function backToRow(context: Context): void {
  if (!context.store.get().explorer.renaming) files.focusRowWhenDrawn(context);
}

/** Of a name, what comes before its kind is selected: it is what one mostly changes. */
function stem(name: string): number {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? dot : name.length;
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

export function menuAt(context: Context, path: string, event: MouseEvent, byFinger = false): void {
  event.preventDefault();
  event.stopPropagation();
  const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
  // A menu key has no place of its own.
  const at = event.clientX || event.clientY ? { x: event.clientX, y: event.clientY } : { x: box.left + 24, y: box.bottom };
  tree.openMenu(context, path, { ...at, byFinger });
}
