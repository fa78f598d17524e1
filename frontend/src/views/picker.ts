/**
 * The picker: quick open, and the palette of commands. Called by frame.ts; reads the State, calls commands.
 *
 * A combobox over a list, in a modal dialog: the focus stays in the line, arrows walk, Enter chooses, Escape leaves.
 */

import { choosePath, closePicker } from "../commands/picker";
import { mac } from "../commands/shortcuts";
import { commandsNow } from "../commands/table";
import { afterDraw, type Context } from "../commands/context";
import { chordWords } from "../state/chords";
import { mostPaths, passedOver, ranked, type PickerState } from "../state/picker";
import type { State } from "../state/types";
import { readable } from "../state/words";
import { modal } from "./dialogs";
import { h, type Child, type VNode } from "./dom";

interface Choice { id: string; main: Child[]; side: Child[]; choose: () => void }

export function pickerDialog(state: State, context: Context): Child {
  const { picker } = state;
  if (!picker) return null;
  const close = (): void => closePicker(context);
  const { choices, at } = offered(state, context, picker);
  const label = picker.mode === "files" ? "Go to file" : "Commands";
  return h("dialog", {
    class: "picker", key: `picker-${picker.mode}`, "aria-label": label, mount: modal,
    oncancel: (event: Event) => { event.preventDefault(); close(); },
    onclick: (event: MouseEvent) => { if (event.target === event.currentTarget) close(); },
  },
  h("div", { class: "picker-box" },
    h("input", {
      class: "picker-line", role: "combobox", "aria-label": label, "aria-expanded": "true", "aria-controls": "picker-list", "aria-autocomplete": "list",
      ...(at >= 0 ? { "aria-activedescendant": `picker-${at}` } : {}), autocomplete: "off", spellcheck: "false", autofocus: true, value: picker.query,
      placeholder: picker.mode === "files" ? "Part of a path" : "What to do",
      oninput: (event: Event) => context.store.dispatch({ type: "picker.typed", query: (event.currentTarget as HTMLInputElement).value }),
      onkeydown: (event: KeyboardEvent) => keys(context, event),
    }),
    h("ul", { class: "picker-list", id: "picker-list", role: "listbox", "aria-label": label },
      choices.map((choice, index) => row(choice, index, index === at))),
    h("p", { class: "picker-note hint", role: "status" }, note(state, picker, choices.length))));
}

function row(choice: Choice, index: number, current: boolean): VNode {
  return h("li", {
    class: current ? "picker-row current" : "picker-row", id: `picker-${index}`, key: choice.id, role: "option", "aria-selected": current ? "true" : "false",
    onclick: choice.choose,
  }, h("span", { class: "picker-main" }, choice.main), h("span", { class: "picker-side" }, choice.side));
}

function offered(state: State, context: Context, { mode, query, at }: PickerState): { choices: Choice[]; at: number } {
  const choices = mode === "files" ? fileChoices(state, context, query) : commandChoices(state, context, query);
  return { choices, at: Math.min(at, choices.length - 1) };
}

/** Of what was typed until now, drawn or not: who types fast presses Enter before the list is drawn. */
function keys(context: Context, event: KeyboardEvent): void {
  const state = context.store.get();
  if (!state.picker) return;
  const { choices, at } = offered(state, context, state.picker);
  const page = 10;
  const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
  const by = steps[event.key];
  if (event.key === "Enter" && !event.isComposing) {
    event.preventDefault();
    choices[at]?.choose();
  } else if (by !== undefined && choices.length > 0) {
    event.preventDefault();
    const round = Math.abs(by) === 1 ? (at + by + choices.length) % choices.length : Math.min(choices.length - 1, Math.max(0, at + by));
    context.store.dispatch({ type: "picker.moved", at: round });
    afterDraw(() => document.getElementById(`picker-${round}`)?.scrollIntoView({ block: "nearest" }));
  }
}

/** The name first, where it lies beside it; what fits is marked in both. */
function fileChoices(state: State, context: Context, query: string): Choice[] {
  const { paths } = state.paths;
  return rankedPaths(paths, query).map(({ at, marks }) => {
    const path = paths[at]!;
    const name = path.lastIndexOf("/") + 1;
    return {
      id: path, choose: () => choosePath(context, path),
      main: marked(path, name, path.length, marks), side: marked(path, 0, Math.max(0, name - 1), marks),
    };
  });
}

/** Every redraw asks; only another question is answered anew. */
let asked: { paths: string[]; query: string; answer: ReturnType<typeof ranked> } | null = null;

function rankedPaths(paths: string[], query: string): ReturnType<typeof ranked> {
  if (!asked || asked.paths !== paths || asked.query !== query) asked = { paths, query, answer: ranked(paths, query) };
  return asked.answer;
}

function commandChoices(state: State, context: Context, query: string): Choice[] {
  const commands = commandsNow(state).filter((one) => one.id !== "palette");
  const titles = commands.map((one) => (one.group === "Go" ? one.title : `${one.group}: ${one.title}`));
  return ranked(titles, query, commands.length).map(({ at, marks }) => {
    const { id, keys: chords = [], run } = commands[at]!;
    const title = titles[at]!;
    return {
      id, choose: () => { closePicker(context); afterDraw(() => run(context)); },
      main: marked(title, 0, title.length, marks), side: chords.slice(0, 1).map((chord) => h("kbd", null, chordWords(chord, mac))),
    };
  });
}

/** The part of a text from `from` to `to`, what was typed in it marked. */
function marked(text: string, from: number, to: number, marks: number[]): Child[] {
  const hit = new Set(marks);
  const parts: Child[] = [];
  for (let at = from; at < to;) {
    const is = hit.has(at);
    let end = at + 1;
    while (end < to && hit.has(end) === is) end += 1;
    const piece = readable(text.slice(at, end));
    parts.push(is ? h("mark", null, piece) : piece);
    at = end;
  }
  return parts;
}

function note({ paths }: State, picker: PickerState, count: number): string {
  if (picker.mode === "commands") return count === 0 ? "No command fits." : "";
  if (paths.status === "asleep") return "Files are read when the workspace runs.";
  if (paths.status === "failed") return paths.problem;
  const listed = paths.more ? `The first ${mostPaths.toLocaleString("en")} entries were listed, there are more.`
    : paths.status === "listed" ? `${paths.paths.length.toLocaleString("en")} files.` : "Listing…";
  return [count === 0 && paths.status === "listed" && "No path fits.", listed, `Not in ${passedOver.join(", ")}.`].filter(Boolean).join(" ");
}
