/** Search in files. Called by views/search-pane.ts; a search that is no longer wanted is ended, here and on the server. */

import { searchPage } from "../api/finding";
import { grep } from "../api/grep";
import { said } from "../api/client";
import { fileSource } from "../state/files";
import { lineCount, mostLines, type SearchWanted } from "../state/search";
import { afterDraw, type Context } from "./context";
import * as editor from "./editor";
import { homeFolder } from "./files";

const typingMs = 300;
/** Shorter ones fit nearly every line: they are looked for when Enter says so. */
const leastTyped = 2;

let running: AbortController | null = null;
let due: ReturnType<typeof setTimeout> | undefined;

export function show(context: Context): void {
  context.store.dispatch({ type: "search.shown", shown: true });
  afterDraw(() => {
    const field = document.querySelector<HTMLInputElement>(".search-form input[name=text]");
    field?.focus();
    field?.select();
  });
}

export function hide(context: Context): void {
  stop();
  context.store.dispatch({ type: "search.shown", shown: false });
}

/** Looks for it as soon as the typing rests; where that would wake what sleeps, once Enter says so. */
export function typed(context: Context, wanted: Partial<SearchWanted>): void {
  context.store.dispatch({ type: "search.wanted", wanted });
  stop();
  const { text } = context.store.get().search.wanted;
  if (text.length < leastTyped || fileSource(context.store.get()) !== "live") return context.store.dispatch({ type: "search.cleared" });
  due = setTimeout(() => void search(context, null), typingMs);
}

export function now(context: Context): void {
  stop();
  if (context.store.get().search.wanted.text !== "") void search(context, null);
}

/** On from where the bound was reached. */
export function goOn(context: Context): void {
  const { next } = context.store.get().search;
  if (next) void search(context, next);
}

function stop(): void {
  clearTimeout(due);
  running?.abort();
  running = null;
}

async function search(context: Context, from: string | null): Promise<void> {
  const { store } = context;
  if (!fileSource(store.get())) return;
  const mine = (running = new AbortController());
  const { wanted, files } = store.get().search;
  store.dispatch({ type: "search.begun", anew: from === null });
  const until = (from === null ? 0 : lineCount(files)) + mostLines;
  try {
    const next = wanted.regex ? await byExpression(context, wanted, mine.signal) : await byText(context, wanted, from, until, mine.signal);
    if (!mine.signal.aborted) store.dispatch({ type: "search.ended", problem: "", next });
  } catch (cause) {
    if (!mine.signal.aborted) store.dispatch({ type: "search.ended", problem: said(cause), next: null });
  }
}

async function byText(context: Context, wanted: SearchWanted, from: string | null, until: number, signal: AbortSignal): Promise<string | null> {
  const { store } = context;
  let next = from;
  do {
    const page = await searchPage(store.get().page.workspace, homeFolder, wanted, next, signal);
    if (signal.aborted) return null;
    store.dispatch({ type: "search.found", files: page.files });
    next = page.next;
  } while (next && lineCount(store.get().search.files) < until);
  return next;
}

/** It has no way to go on: `next` is empty and yet not null where there is more. */
async function byExpression(context: Context, wanted: SearchWanted, signal: AbortSignal): Promise<string | null> {
  const { files, more } = await grep(context.store.get().page.workspace, homeFolder, wanted, signal);
  if (!signal.aborted) context.store.dispatch({ type: "search.found", files });
  return more ? "" : null;
}

export function openLine(context: Context, path: string, line: number): void {
  const { wanted } = context.store.get().search;
  void editor.open(context, path, { line, wanted });
}
