/**
 * Keys by name: "Mod+Shift+P" is what a person presses, on this machine. Pure; called by commands/shortcuts.ts and views.
 *
 * Mod is Cmd on a Mac and Ctrl elsewhere; Ctrl is Ctrl everywhere.
 */

export interface Pressed { key: string; code?: string; ctrlKey: boolean; metaKey: boolean; altKey: boolean; shiftKey: boolean }

export function isMac(platform: string): boolean {
  return /mac|iphone|ipad/i.test(platform);
}

export function fits(chord: string, pressed: Pressed, mac: boolean): boolean {
  const parts = chord.split("+");
  const key = parts.pop()!;
  const has = (name: string): boolean => parts.includes(name);
  const mod = has("Mod");
  if (pressed.ctrlKey !== (has("Ctrl") || (mod && !mac)) || pressed.metaKey !== (mod && mac)) return false;
  if (pressed.altKey !== has("Alt")) return false;
  // A sign like "?" is typed with Shift on most keyboards: there the sign alone counts.
  if (/^[A-Z]$|..|`/.test(key) && pressed.shiftKey !== has("Shift")) return false;
  return sameKey(key, pressed);
}

/** With Alt a Mac types other letters, and other alphabets have none of ours: there the place of the key counts. */
function sameKey(key: string, { key: typed, code }: Pressed): boolean {
  if (typed.toLowerCase() === key.toLowerCase()) return true;
  return /^[A-Z]$/.test(key) && !/^[a-z]$/i.test(typed) && code === `Key${key}`;
}

const signs: Record<string, string> = { Mod: "⌘", Ctrl: "⌃", Alt: "⌥", Shift: "⇧" };
const names: Record<string, string> = { PageDown: "Page Down", PageUp: "Page Up", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };

/** As it is printed on the keyboard of this machine. */
export function chordWords(chord: string, mac: boolean): string {
  const parts = chord.split("+").map((part) => names[part] ?? part);
  return mac ? parts.map((part) => signs[part] ?? part).join("") : parts.map((part) => (part === "Mod" ? "Ctrl" : part)).join("+");
}

/** For aria-keyshortcuts. */
export function chordAria(chord: string, mac: boolean): string {
  return chord.replace("Mod", mac ? "Meta" : "Control").replace("Ctrl", "Control");
}
