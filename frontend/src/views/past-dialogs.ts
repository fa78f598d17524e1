/**
 * The dialogs that look into checkpoints: their files, and what differs between any two. Called by time-dialogs.ts; reads
 * the State, calls commands/past.
 */

import { pastUrl } from "../api/checkpoints";
import type { Context } from "../commands/context";
import * as past from "../commands/past";
import { countsOf, countWords, pointName, trail, type Difference, type Look } from "../state/past";
import type { Checkpoint, FileEntry, State } from "../state/types";
import { baseName, bytes, clock, readable } from "../state/words";
import type { Shown } from "./dialogs";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";
import { button } from "./parts";
import { change } from "./step-details";

/** What a page may hold to write it again. */
const mostBroughtBytes = 64 * 1024 * 1024;

const close = (context: Context) => (): void => context.store.dispatch({ type: "dialog.closed" });

// -- files ------------------------------------------------------------------------------------------------------------

export function browseDialog(state: State, context: Context, one: Checkpoint): Shown {
  const { look } = state.past;
  return {
    title: `Files of “${pointName(one)}”`, verb: "Close", dismiss: "", wide: true, act: close(context),
    body: [
      h("nav", { class: "past-trail", "aria-label": "Folders", key: "trail" }, trail(look.folder).map((step) =>
        h("button", { type: "button", key: step.path, class: "past-step mono", "aria-current": step.path === look.folder ? "true" : undefined,
          onclick: () => void past.goTo(context, one.id, step.path) }, readable(step.name)))),
      h("div", { class: "past", key: "past" },
        h("div", { class: "past-list" }, problemOf(look), entries(look, context, one)),
        h("div", { class: "past-file" }, look.path === "" ? h("p", { class: "hint" }, "Choose a file to read it. Nothing here changes or wakes the workspace.") : file(state, context, one))),
    ],
  };
}

function problemOf(look: Look): Child {
  return look.status === "failed" && h("p", { class: "problem", role: "alert", key: "problem" }, `It cannot be read now. ${look.problem}`);
}

function entries(look: Look, context: Context, one: Checkpoint): Child {
  if (look.status !== "read") return null;
  if (look.entries.length === 0) return h("p", { class: "hint" }, "The folder is empty.");
  return h("ul", { class: "past-entries", "aria-label": "Files", key: `entries-${look.folder}`, onkeydown: walk },
    look.entries.map((entry) => entryRow(look, context, one, entry)),
    look.more && h("li", { key: "more", class: "hint" }, "There is more in this folder than is shown."));
}

function entryRow(look: Look, context: Context, one: Checkpoint, entry: FileEntry): VNode {
  const folder = entry.type === "directory";
  const plain = folder || entry.type === "file";
  return h("li", { key: entry.path },
    h("button", {
      type: "button", class: `past-entry${look.path === entry.path ? " current" : ""}`, disabled: !plain, "aria-current": look.path === entry.path ? "true" : undefined,
      onclick: () => void (folder ? past.goTo(context, one.id, entry.path) : past.openPast(context, one.id, entry.path)),
    },
    icon(folder ? "folder" : entry.type === "symlink" ? "link" : "file"), h("span", { class: "past-name" }, baseName(entry.path)),
    folder && h("span", { class: "unseen" }, "folder"),
    !folder && h("span", { class: "past-size" }, entry.target ? `→ ${readable(entry.target)}` : bytes(entry.size))));
}

/** Up and down go from row to row. */
function walk(event: KeyboardEvent): void {
  if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
  const lines = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button.past-entry:enabled")];
  const next = lines[lines.indexOf(document.activeElement as HTMLElement) + (event.key === "ArrowDown" ? 1 : -1)];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function file(state: State, context: Context, one: Checkpoint): Child[] {
  const { look } = state.past;
  const entry = look.entries.find((other) => other.path === look.path);
  return [
    h("div", { class: "past-head", key: "head" },
      h("h3", { class: "mono", title: readable(look.path) }, baseName(look.path)),
      entry && h("span", { class: "muted" }, bytes(entry.size)),
      h("a", { class: "button small", href: pastUrl(state.page.workspace, one.id, look.path), download: baseName(look.path) }, "Download"),
      bringButton(state, context, one, entry?.size ?? 0)),
    look.replaces !== "" && h("div", { class: "past-ask", key: "ask", role: "alert" },
      h("p", null, "There is such a file now. It is replaced, and what is in it is lost unless a checkpoint has it."),
      button("Replace it", () => void past.bringBack(context, one.id), { class: "small danger", disabled: look.writing }),
      button("Leave it", () => context.store.dispatch({ type: "look.changed", change: { replaces: "" } }), { class: "small quiet" })),
    h("div", { class: "past-content", key: look.path }, content(look)),
  ];
}

function bringButton(state: State, context: Context, one: Checkpoint, size: number): Child {
  const workspace = state.workspaces[state.page.workspace];
  if (workspace?.role === "viewer" || size > mostBroughtBytes) return null;
  if (workspace?.state !== "running") return h("span", { class: "hint" }, "It can be brought back when the workspace runs.");
  return state.past.look.replaces === "" &&
    button("Bring this file back", () => void past.bringBack(context, one.id), { class: "small", disabled: state.past.look.writing });
}

function content({ file: shown, path }: Look): Child {
  if (shown?.kind === "failed") return h("p", { class: "problem" }, `It cannot be read now. ${shown.problem}`);
  if (shown?.kind !== "file") return null;
  const plain = shown.diff === null && shown.text !== "";
  return plain && shown.notes.length === 0
    ? h("pre", { class: "past-text", tabindex: "0", "aria-label": `Content of ${baseName(path)}` }, shown.text)
    : change(shown);
}

// -- any two ----------------------------------------------------------------------------------------------------------

export function compareDialog(state: State, context: Context): Shown {
  const { look } = state.past;
  return {
    title: "What differs", verb: "Close", dismiss: "", wide: true, act: close(context),
    body: [
      h("div", { class: "past-choose", key: "choose" },
        choose(state, "From", look.a, false, (a) => void past.compare(context, a, look.b)),
        choose(state, "To", look.b, true, (b) => void past.compare(context, look.a, b)),
        h("p", { class: "muted", role: "status" }, summary(look))),
      problemOf(look),
      h("div", { class: "past", key: "past" },
        h("div", { class: "past-list" },
          look.differences.length > 0 && h("ul", { class: "past-entries", "aria-label": "Files that differ", key: `${look.a}-${look.b}`, onkeydown: walk }, look.differences.map((one) => differenceRow(look, context, one))),
          look.next !== "" && button("Show more", () => void past.moreDifferences(context), { class: "small quiet", disabled: look.status === "reading" })),
        h("div", { class: "past-file" }, look.path === "" ? look.differences.length > 0 && h("p", { class: "hint" }, "Choose a file to see its lines.") : [
          h("div", { class: "past-head", key: "head" }, h("h3", { class: "mono breakable" }, readable(look.path))),
          h("div", { class: "past-content", key: look.path }, content(look))])),
    ],
  };
}

function choose(state: State, label: string, value: string, withNow: boolean, chosen: (id: string) => void): VNode {
  const points = state.time.checkpoints.filter((one) => one.state === "ready");
  const options: [string, string][] = [...(withNow ? [["now", "Now"] as [string, string]] : []),
    ...points.map((one): [string, string] => [one.id, `${pointName(one)} (${clock(one.created_at)})`])];
  return h("label", { class: "past-choice", key: label }, h("span", null, label),
    h("select", { value, onchange: (event: Event) => chosen((event.currentTarget as HTMLSelectElement).value) },
      options.map(([id, words]) => h("option", { key: id, value: id }, words))));
}

function summary(look: Look): string {
  if (look.status === "reading" && look.differences.length === 0) return "Comparing…";
  if (look.status === "failed") return "";
  const words = countWords(countsOf(look.differences));
  return words === "" ? "Nothing differs." : `${words}${look.next ? " among the first, and more" : ""}`;
}

const signs: Record<Difference["change"], [string, string, string]> = {
  added: ["+", "new", "tone-ok"], modified: ["±", "changed", "tone-busy"], removed: ["−", "deleted", "tone-bad"], type: ["±", "another kind", "tone-busy"],
};

export function changeSign(one: Difference): VNode {
  const [sign, word, tone] = signs[one.change];
  return h("span", { class: `change-sign ${tone}`, title: word }, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "unseen" }, `${word}: `));
}

export function sizeWords({ size_before: before, size_after: after }: Difference): string {
  const [old, now] = [before, after].map((size) => (size === null ? "" : bytes(size)));
  return old && now ? (old === now ? now : `${old} → ${now}`) : old || now || "";
}

function differenceRow(look: Look, context: Context, one: Difference): VNode {
  const current = look.path === one.path;
  return h("li", { key: one.path },
    h("button", { type: "button", class: `past-entry${current ? " current" : ""}`, "aria-current": current ? "true" : undefined, onclick: () => void past.openDifference(context, one.path) },
      changeSign(one), h("span", { class: "past-name", title: readable(one.path) }, shortPath(one.path)), h("span", { class: "past-size" }, sizeWords(one))));
}

function shortPath(path: string): string {
  return readable(path.replace(/^\/home\/user\//, "~/"));
}
