/**
 * Which keys the terminal leaves to the page: copy and paste as people expect them. Called by session.ts.
 *
 * Ctrl-C copies when text is selected and interrupts when not; Ctrl-Shift-C copies; Ctrl-V and Ctrl-Shift-V paste through
 * the browser's own paste, so no permission is asked and no ^V reaches the shell. Ctrl-Shift-F searches (on a Mac Cmd-F).
 * Ctrl-` belongs to the page: it leads out of the terminal, where Tab is the program's.
 */

import type { Terminal } from "@xterm/xterm";

export function handlesKey(screen: Terminal, event: KeyboardEvent, search: () => void): boolean {
  const key = event.key.toLowerCase();
  if (isSearch(event, key)) {
    event.preventDefault();
    if (event.type === "keydown") search();
    return false;
  }
  const chord = event.ctrlKey && !event.altKey && !event.metaKey;
  if (!chord) return true;
  if (key === "v" || key === "`") return false;
  if (key === "c" && (event.shiftKey || screen.hasSelection())) {
    event.preventDefault();
    if (event.type === "keydown") copy(screen);
    return false;
  }
  return true;
}

function isSearch(event: KeyboardEvent, key: string): boolean {
  if (key !== "f" || event.altKey) return false;
  return (event.ctrlKey && event.shiftKey && !event.metaKey) || (event.metaKey && !event.ctrlKey && !event.shiftKey);
}

function copy(screen: Terminal): void {
  const text = screen.getSelection();
  if (!text) return;
  void navigator.clipboard?.writeText(text).catch(() => document.execCommand("copy"));
  screen.clearSelection();
}
