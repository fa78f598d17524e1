/**
 * Which keys the terminal leaves to the page: copy and paste as people expect them. Called by session.ts.
 *
 * Ctrl-C copies when text is selected and interrupts when not; Ctrl-Shift-C copies; Ctrl-V and Ctrl-Shift-V paste through
 * the browser's own paste, so no permission is asked and no ^V reaches the shell. Ctrl-` belongs to the page.
 */

import type { Terminal } from "@xterm/xterm";

export function handlesKey(screen: Terminal, event: KeyboardEvent): boolean {
  const chord = event.ctrlKey && !event.altKey && !event.metaKey;
  if (!chord) return true;
  const key = event.key.toLowerCase();
  if (key === "v" || key === "`") return false;
  if (key === "c" && (event.shiftKey || screen.hasSelection())) {
    if (event.type === "keydown") copy(screen, event);
    return false;
  }
  return true;
}

function copy(screen: Terminal, event: KeyboardEvent): void {
  const text = screen.getSelection();
  if (!text) return;
  event.preventDefault();
  void navigator.clipboard?.writeText(text).catch(() => document.execCommand("copy"));
  screen.clearSelection();
}
