/** What may be done with a row of the tree, or with the folder it shows: opened by the menu key, a right click or a button. */

import type { Context } from "../commands/context";
import * as editor from "../commands/editor";
import * as files from "../commands/files";
import * as moving from "../commands/moving";
import * as tree from "../commands/tree";
import * as uploads from "../commands/uploads";
import { meant } from "../state/chosen";
import { folderAt, type Explorer } from "../state/file-tree";
import type { Dialog, State } from "../state/types";
import { baseName } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import type { Source } from "./tree";

export function treeMenu(state: State, context: Context, source: Source): Child {
  const { menu } = state.explorer;
  if (!menu) return null;
  const close = (): void => { if (context.store.get().explorer.menu === menu) tree.change(context, { menu: null }); };
  return h("div", {
    class: "popover tree-menu", key: `menu-${menu.path}-${menu.x}-${menu.y}`, popover: menu.byFinger ? "manual" : "auto", role: "menu",
    "aria-label": menu.path === state.home ? "Files" : baseName(menu.path),
    mount: (element: HTMLElement) => show(context, element, menu), onkeydown: walk,
    ontoggle: (event: ToggleEvent) => { if (event.newState === "closed") close(); },
  }, items(state, context, menu.path, source));
}

/** Within the window; the focus goes back to the row unless what was chosen takes it. */
function show(context: Context, element: HTMLElement, { x, y, byFinger }: NonNullable<Explorer["menu"]>): () => void {
  const elsewhere = (event: Event): void => { if (!element.contains(event.target as Node)) element.hidePopover(); };
  element.showPopover();
  const { width, height } = element.getBoundingClientRect();
  element.style.setProperty("left", `${Math.max(8, Math.min(x, innerWidth - width - 8))}px`);
  element.style.setProperty("top", `${Math.max(8, Math.min(y, innerHeight - height - 8))}px`);
  element.querySelector<HTMLElement>("[role=menuitem]")?.focus();
  // The browser would close it with the very finger that opened it, so it is closed by the next.
  if (byFinger) document.addEventListener("pointerdown", elsewhere);
  return () => {
    document.removeEventListener("pointerdown", elsewhere);
    const inside = element.contains(document.activeElement);
    if (inside || document.activeElement === document.body) files.focusRow(context);
  };
}

function walk(event: KeyboardEvent): void {
  const items = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=menuitem]")];
  const at = items.indexOf(document.activeElement as HTMLElement);
  const to: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 };
  const next = to[event.key];
  if (event.key === "Tab" || event.key === "Escape") (event.currentTarget as HTMLElement).hidePopover();
  if (next === undefined) return;
  event.preventDefault();
  items[(next + items.length) % items.length]?.focus();
}

function items(state: State, context: Context, path: string, source: Source): Child[] {
  const many = meant(state, path).length;
  const verb = tree.downloadVerb(state, path);
  return many > 1 ? forSeveral(context, path, source, `${verb} ${many} entries`, many) : forOne(state, context, path, source, verb);
}

const line = (key: string): VNode => h("hr", { key, role: "separator" });

function forSeveral(context: Context, path: string, source: Source, download: string, many: number): Child[] {
  const live = source === "live";
  return [
    source && item(download, () => tree.download(context, path), context),
    live && line("change"),
    live && item(`Move ${many} entries`, () => moving.askToMove(context, path), context),
    live && item(`Delete ${many} entries`, () => moving.askToRemove(context, path), context, "Delete", "danger-text"),
    line("choose"),
    item("Choose none", () => tree.chooseNone(context), context, "Escape"),
  ];
}

function forOne(state: State, context: Context, path: string, source: Source, download: string): Child[] {
  const folder = folderAt(state, path);
  const isFolder = folder === path;
  const isHome = path === state.home;
  const live = source === "live";
  const opens = (dialog: Dialog) => (): void => context.store.dispatch({ type: "dialog.opened", dialog });
  return [
    !isFolder && source && item("Open", () => void editor.open(context, path, {}), context),
    live && isFolder && item("New file", opens({ kind: "new-entry", type: "file", parent: folder }), context),
    live && isFolder && item("New folder", opens({ kind: "new-entry", type: "directory", parent: folder }), context),
    live && isFolder && line("up"),
    live && isFolder && item("Upload files", () => uploads.choose(context, folder, "files"), context),
    live && isFolder && item("Upload a folder", () => uploads.choose(context, folder, "folder"), context),
    source && line("down"),
    source && item(isFolder ? `${download} as an archive` : download, () => tree.download(context, path), context),
    item("Copy the path", () => tree.copyPath(context, path), context),
    !isHome && item("Choose several", () => tree.change(context, { chosen: [path], anchor: path }), context),
    live && !isHome && line("change"),
    live && !isHome && item("Rename", () => moving.rename(context, path), context, "F2"),
    live && !isHome && item("Move", () => moving.askToMove(context, path), context),
    live && !isHome && item("Delete", () => moving.askToRemove(context, path), context, "Delete", "danger-text"),
  ];
}

function item(label: string, act: () => void, context: Context, keys = "", more = ""): VNode {
  return h("button", {
    type: "button", role: "menuitem", tabindex: "-1", key: label, class: `popover-item ${more}`.trim(), ...(keys ? { "aria-keyshortcuts": keys } : {}),
    onclick: () => { tree.change(context, { menu: null }); act(); },
  }, label, keys && h("kbd", { "aria-hidden": "true" }, keys));
}
