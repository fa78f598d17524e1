/** The editor's tabs, what is said above the text, and the text itself. Reads the State; calls commands/editor. */

import { afterDraw, type Context } from "../commands/context";
import * as editor from "../commands/editor";
import * as files from "../commands/files";
import type { EditorTab, State } from "../state/types";
import { ago, baseName, readable } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { mediaView } from "./media";
import { button, iconButton } from "./parts";

export function editorPane(state: State, context: Context): VNode {
  const tab = state.tabs.find((one) => one.path === state.activePath);
  return h("div", { class: "editor-pane" },
    state.tabs.length > 0 && h("div", { class: "tabs", role: "toolbar", "aria-label": "Open files", onkeydown: (event: KeyboardEvent) => walk(context, event) },
      state.tabs.map((one) => tabButton(state, context, one)),
      h("div", { class: "tabs-rest" }, tab && saveButton(context, tab))),
    tab ? [banner(state, context, tab), text(context, tab)] : nothingOpen());
}

/** Left and right, as in every row of tabs; Delete closes the one that has the focus. */
function walk(context: Context, event: KeyboardEvent): void {
  const names = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>(".tab-name")];
  const at = names.indexOf(document.activeElement as HTMLElement);
  if (at < 0) return;
  const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  if (by === 0 && event.key !== "Delete") return;
  event.preventDefault();
  if (by !== 0) return names[(at + by + names.length) % names.length]?.focus();
  const tab = context.store.get().tabs[at];
  if (!tab) return;
  editor.close(context, tab.path);
  afterDraw(() => { if (document.activeElement === document.body) document.querySelector<HTMLElement>(".editor-pane .tab.current .tab-name")?.focus(); });
}

function tabButton(state: State, context: Context, tab: EditorTab): VNode {
  const current = tab.path === state.activePath;
  const name = baseName(tab.path);
  return h("div", {
    class: current ? "tab current" : "tab", key: tab.path,
    // The middle button closes; on its way down it would begin to scroll.
    onmousedown: (event: MouseEvent) => { if (event.button === 1) event.preventDefault(); },
    onauxclick: (event: MouseEvent) => { if (event.button === 1) { event.preventDefault(); editor.close(context, tab.path); } },
  },
    h("button", {
      type: "button", class: "tab-name", title: readable(tab.path), "aria-current": current ? "true" : "false",
      onclick: () => context.store.dispatch({ type: "tab.activated", path: tab.path }),
    }, name, tab.dirty && h("span", { class: "unsaved", title: "Not saved" }, "●", h("span", { class: "unseen" }, " not saved"))),
    iconButton("close", `Close ${name}`, () => editor.close(context, tab.path)));
}

function saveButton(context: Context, tab: EditorTab): Child {
  if (tab.status !== "open" || tab.readOnly) return null;
  return button(tab.saving ? "Saving" : "Save", () => void editor.save(context, tab.path),
    { class: "small", disabled: !(tab.dirty || tab.gone) || tab.saving, title: "Save (Ctrl or ⌘ S)" });
}

function banner(state: State, context: Context, tab: EditorTab): Child {
  if (tab.gone) return gone(context, tab);
  if (tab.conflict) return conflict(state, context, tab, tab.conflict);
  if (tab.problem) {
    return h("div", { class: "banner bad", role: "alert", key: "problem" }, h("p", null, tab.problem),
      button("Try again", () => void editor.save(context, tab.path), { class: "small" }));
  }
  return tab.status === "open" && tab.reason ? h("div", { class: "banner", role: "status", key: "reason" }, h("p", null, tab.reason)) : null;
}

function gone(context: Context, tab: EditorTab): VNode {
  return h("div", { class: "banner conflict", role: "alert", key: "gone" },
    h("p", null, h("strong", null, `${baseName(tab.path)} was deleted or moved`), tab.readOnly ? "" : ". Saving writes it anew."),
    button("Close", () => editor.close(context, tab.path), { class: "small" }));
}

function conflict(state: State, context: Context, tab: EditorTab, who: { by: string; at: string }): VNode {
  const by = who.by ? ` by ${who.by}` : "";
  const at = who.at ? `, ${ago(who.at, state.now)}` : "";
  return h("div", { class: "banner conflict", role: "alert", key: "conflict" },
    h("p", null, h("strong", null, `${baseName(tab.path)} changed underneath`), `${by}${at}. Your version is not saved.`),
    h("div", { class: "banner-actions" },
      button("Compare and merge", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "compare", path: tab.path } }), { class: "small" }),
      button("Load theirs", () => void editor.reload(context, tab.path), { class: "small" }),
      button("Overwrite", () => void editor.save(context, tab.path, true), { class: "small" }),
      button("Keep editing", () => editor.keepEditing(context, tab.path), { class: "small quiet" })));
}

function text(context: Context, tab: EditorTab): Child {
  if (tab.status === "open" && tab.shows !== "text") return mediaView(context, tab);
  if (tab.status === "open") {
    return h("div", { class: "editor-host", key: `text-${tab.path}`, hosted: true,
      mount: (element) => editor.sessionOf(tab.path)?.showIn(element) });
  }
  if (tab.status === "opening") return h("div", { class: "editor-host", key: "opening", "aria-busy": "true" });
  return h("div", { class: "at-rest", key: "refused" },
    h("p", null, tab.reason),
    button("Download", () => files.download(context, tab.path)));
}

function nothingOpen(): VNode {
  return h("div", { class: "at-rest", key: "nothing" }, h("p", { class: "muted" }, "Open a file from the list to read or change it."));
}
