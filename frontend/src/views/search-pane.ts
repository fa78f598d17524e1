/** Search in files: what to look for, and what was found, by file. Called by files-pane.ts; calls commands/search. */

import type { Context } from "../commands/context";
import { homeFolder } from "../commands/files";
import * as search from "../commands/search";
import { fileSource } from "../state/files";
import { passedOver } from "../state/picker";
import { lineCount, marksIn, type FoundFile, type FoundLine, type SearchState, type SearchWanted } from "../state/search";
import type { State, Workspace } from "../state/types";
import { baseName, parentOf, readable, startWord } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";
import { button } from "./parts";

export function searchPane(state: State, context: Context, workspace: Workspace): VNode {
  const source = fileSource(state);
  return h("div", { class: "search", key: "search", onkeydown: (event: KeyboardEvent) => keys(context, event) },
    form(state.search, context),
    h("p", { class: "search-note hint", role: "status" }, note(state, source)),
    source === "disk" && state.search.status !== "searching" && h("p", { class: "inset", key: "start" },
      button(`${startWord(workspace.state)} and search`, () => search.now(context), { class: "small", disabled: state.search.wanted.text === "" })),
    state.search.problem && h("p", { class: "problem inset", role: "alert", key: "problem" }, state.search.problem),
    results(state.search, context));
}

/** The first call wakes what sleeps: a search does so only when it is told to, and says so before. */
function note(state: State, source: ReturnType<typeof fileSource>): string {
  if (source === "live") return summary(state.search);
  if (state.search.status === "searching") return "It is woken, then searched…";
  return source === "disk" ? "Contents are searched in a workspace that runs: to search wakes it." : "Contents are searched once it runs.";
}

function form({ wanted }: SearchState, context: Context): VNode {
  const typed = (event: Event): void => {
    const data = new FormData((event.currentTarget as HTMLElement).closest("form")!);
    search.typed(context, {
      text: String(data.get("text") ?? ""), glob: String(data.get("glob") ?? "").trim(), matchCase: data.has("case"), regex: data.has("regex"),
    });
  };
  const line = (name: "text" | "glob", label: string, placeholder: string): VNode =>
    h("input", { name, "aria-label": label, placeholder, value: wanted[name], autocomplete: "off", spellcheck: "false", oninput: typed });
  return h("form", {
    class: "search-form", role: "search", "aria-label": "Search in files",
    onsubmit: (event: Event) => { event.preventDefault(); search.now(context); },
  },
  h("div", { class: "search-line" }, line("text", "Search for", "Search in files"),
    flag("case", "Aa", "Match case", wanted.matchCase, typed),
    flag("regex", ".*", "Regular expression (grep -E, as a command of yours)", wanted.regex, typed)),
  line("glob", "Only in names like", "In names like *.py"));
}

function flag(name: string, text: string, label: string, checked: boolean, typed: (event: Event) => void): VNode {
  return h("label", { class: "find-flag", title: label },
    h("input", { type: "checkbox", name, "aria-label": label, checked, onchange: typed }), h("span", { "aria-hidden": "true" }, text));
}

function summary(found: SearchState): string {
  const lines = lineCount(found.files), files = found.files.length;
  const count = `${lines.toLocaleString("en")} ${lines === 1 ? "line" : "lines"} in ${files.toLocaleString("en")} ${files === 1 ? "file" : "files"}`;
  switch (found.status) {
    case "idle": return `Below ${homeFolder}, not in ${passedOver.join(", ")}.`;
    case "searching": return files > 0 ? `${count}, searching…` : "Searching…";
    case "failed": return files > 0 ? count : "";
    case "done": return files === 0 && found.next === null ? "Nothing found." : found.next === null ? `${count}.` : `${count}, and there may be more.`;
  }
}

function results(found: SearchState, context: Context): Child {
  if (found.files.length === 0 && !found.next) return null;
  return h("div", { class: "search-results", key: "results" },
    h("ul", { "aria-label": "Found" }, found.files.map((file) => group(found, context, file))),
    found.next && found.status === "done" && h("p", { class: "inset", key: "more" }, button("Search on", () => search.goOn(context), { class: "small" })),
    found.next === "" && found.status === "done" && h("p", { class: "hint inset", key: "bound" }, "The output reached its bound. Look for something rarer, or use the terminal."));
}

/** A group is drawn anew only when it, or what is marked in it, changed: there may be hundreds. */
const drawn = new WeakMap<FoundFile, { folded: boolean; wanted: SearchWanted; node: VNode }>();

function group(found: SearchState, context: Context, file: FoundFile): VNode {
  const folded = file.path in found.folded;
  const known = drawn.get(file);
  if (known && known.folded === folded && known.wanted === found.wanted) return known.node;
  const node = groupNode(found, context, file, folded);
  drawn.set(file, { folded, wanted: found.wanted, node });
  return node;
}

function groupNode(found: SearchState, context: Context, file: FoundFile, folded: boolean): VNode {
  const below = parentOf(file.path).slice(homeFolder.length + 1);
  return h("li", { key: file.path },
    h("button", {
      type: "button", class: "found-file", "aria-expanded": folded ? "false" : "true", title: readable(file.path),
      onclick: () => context.store.dispatch({ type: "search.folded", path: file.path }),
    }, icon(folded ? "shut" : "open"), h("span", { class: "found-name" }, baseName(file.path)), h("span", { class: "found-where" }, readable(below)),
    h("span", { class: "found-count" }, file.cut ? `${file.lines.length}+` : file.lines.length)),
    !folded && h("ul", { key: "lines" }, file.lines.map((line) => lineRow(found, context, file, line))));
}

function lineRow(found: SearchState, context: Context, file: FoundFile, line: FoundLine): VNode {
  return h("li", { key: String(line.line) }, h("button", {
    type: "button", class: "found-line", "aria-label": `Line ${line.line}: ${readable(line.text.trim())}`,
    onclick: () => search.openLine(context, file.path, line.line),
  }, h("span", { class: "found-number" }, line.line), h("code", null, lineText(line.text, found.wanted))));
}

/** Beginning shortly before what was found, so that it is seen in a narrow pane. */
function lineText(text: string, wanted: SearchWanted): Child[] {
  const marks = marksIn(text, wanted);
  const indent = text.length - text.trimStart().length;
  const first = marks[0]?.[0] ?? 0;
  let at = Math.min(indent, first);
  const parts: Child[] = [];
  if (first - at > 24) { at = first - 16; parts.push("…"); }
  for (const [from, to] of marks) {
    parts.push(readable(text.slice(at, from)), h("mark", null, readable(text.slice(from, to))));
    at = to;
  }
  return [...parts, readable(text.slice(at, at + 240))];
}

/** Enter looks at once (of two fields a browser takes it for neither); up and down walk over what was found; Escape leads back to the tree. */
function keys(context: Context, event: KeyboardEvent): void {
  if (event.key === "Escape") {
    event.preventDefault();
    return search.hide(context);
  }
  if (event.key === "Enter" && event.target instanceof HTMLInputElement) {
    event.preventDefault();
    return search.now(context);
  }
  const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (by === 0) return;
  const pane = event.currentTarget as HTMLElement;
  const stops = [...pane.querySelectorAll<HTMLElement>('input[name="text"], .found-file, .found-line')];
  const next = stops[stops.indexOf(document.activeElement as HTMLElement) + by];
  if (!next) return;
  event.preventDefault();
  next.focus();
}
