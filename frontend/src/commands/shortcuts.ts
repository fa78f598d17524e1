/**
 * Keys of the whole page, from the table of commands. Called by main.ts once.
 *
 * They are heard before anybody else hears them, and left alone where they are somebody's own: in a dialog, in a terminal
 * (save those that no program in it needs), and, when they are a sign and no chord, wherever one types.
 */

import { fits, isMac } from "../state/chords";
import type { Context } from "./context";
import { commandsNow, type Command } from "./table";

export const mac = isMac(navigator.platform);

export function useShortcuts(context: Context): void {
  addEventListener("keydown", (event) => {
    const command = wantedBy(context, event);
    if (!command) return;
    event.preventDefault();
    event.stopPropagation();
    if (!event.repeat) command.run(context);
  }, { capture: true });
}

function wantedBy(context: Context, event: KeyboardEvent): Command | undefined {
  const { dialog, picker } = context.store.get();
  if (dialog || picker || event.isComposing || event.defaultPrevented) return undefined;
  const inTerminal = isIn(event.target, ".screen");
  return commandsNow(context.store.get()).find((one) =>
    one.keys?.some((chord) => fits(chord, event, mac) && mayBe(one, chord, event, inTerminal)));
}

function mayBe(command: Command, chord: string, event: KeyboardEvent, inTerminal: boolean): boolean {
  // With Cmd no key reaches a program in a terminal; of the others it has all but those that are named.
  if (inTerminal && !event.metaKey && !command.inTerminal?.includes(chord)) return false;
  return chord.includes("+") || chord.length > 1 || !isIn(event.target, "input, textarea, select, [contenteditable]");
}

function isIn(target: EventTarget | null, selector: string): boolean {
  return target instanceof Element && target.closest(selector) !== null;
}
