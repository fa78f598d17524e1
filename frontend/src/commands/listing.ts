/**
 * What the home page looks for and which page of it it has. Called by views and pages.ts; calls api/, tells the store.
 *
 * An answer that was overtaken by another question is dropped.
 */

import { said } from "../api/client";
import * as api from "../api/workspaces";
import { addressOf, askedOf, cursorOf } from "../state/listing";
import type { ListQuery } from "../state/types";
import type { Context } from "./context";

const typingMs = 200;
let asked = 0;
let typing: ReturnType<typeof setTimeout> | undefined;

/** The page that was asked for last, shown or on its way: what makes one read again does not lead back from it. */
let aim: string[] = [""];

/** Reads the page that is shown, again; or another one, which is shown once it is there. */
export async function load(context: Context, cursors = aim): Promise<void> {
  const { query } = context.store.get().listing;
  const turn = ++asked;
  aim = cursors;
  try {
    const { results, next } = await api.listPage(askedOf(query, cursors.at(-1) ?? ""));
    if (turn === asked) context.store.dispatch({ type: "listing.read", workspaces: results, next, cursors });
  } catch (cause) {
    if (turn !== asked) return;
    aim = context.store.get().listing.cursors;
    context.store.dispatch({ type: "listing.failed", problem: said(cause) });
  }
}

/** Looks for something else, from its first page on. */
export async function ask(context: Context, query: ListQuery): Promise<void> {
  clearTimeout(typing);
  context.store.dispatch({ type: "listing.asked", query });
  history.replaceState(null, "", addressOf(query));
  await load(context, [""]);
}

/** While somebody types: once they pause. */
export function askSoon(context: Context, query: () => ListQuery): void {
  clearTimeout(typing);
  typing = setTimeout(() => void ask(context, query()), typingMs);
}

export async function forward(context: Context): Promise<void> {
  const { cursors, next } = context.store.get().listing;
  if (next) await turnTo(context, [...cursors, cursorOf(next)]);
}

export async function back(context: Context): Promise<void> {
  const { cursors } = context.store.get().listing;
  if (cursors.length > 1) await turnTo(context, cursors.slice(0, -1));
}

async function turnTo(context: Context, cursors: string[]): Promise<void> {
  await load(context, cursors);
  scrollTo(0, 0);
}

export function openCreate(context: Context): void {
  context.store.dispatch({ type: "dialog.opened", dialog: { kind: "create" } });
  void loadChoices(context);
}

/** What the create dialog offers. Where it cannot be read the dialog works without it. */
async function loadChoices(context: Context): Promise<void> {
  const [images, terms] = await Promise.all([api.listImages().catch(() => null), api.readTerms().catch(() => null)]);
  if (images) context.store.dispatch({ type: "images.read", images });
  if (terms) context.store.dispatch({ type: "terms.read", terms });
}
