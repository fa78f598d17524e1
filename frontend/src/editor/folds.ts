/**
 * The folded stretches of a comparison by keyboard and by ear: CodeMirror draws them for the mouse alone. Called by compare.ts.
 *
 * Each becomes a button that Tab reaches; opened, it leaves the cursor on the first line that it hid.
 */

import { Prec, type Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";

const folded = "cm-collapsedLines";

export function openableFolds(): Extension {
  return [
    EditorView.updateListener.of((update) => nameFolds(update.view)),
    // Before the editor takes the key for its own text.
    Prec.highest(EditorView.domEventHandlers({ keydown: (event, view) => pressed(event, view) })),
  ];
}

export function nameFolds(view: EditorView): void {
  for (const fold of view.dom.querySelectorAll<HTMLElement>(`.${folded}:not([role])`)) {
    fold.setAttribute("role", "button");
    fold.setAttribute("tabindex", "0");
    fold.setAttribute("aria-label", `Show ${fold.textContent ?? ""}`);
  }
}

function pressed(event: KeyboardEvent, view: EditorView): boolean {
  const fold = event.target;
  if (!(fold instanceof HTMLElement) || !fold.classList.contains(folded) || (event.key !== "Enter" && event.key !== " ")) return false;
  const at = view.posAtDOM(fold);
  fold.click();
  view.dispatch({ selection: { anchor: at }, scrollIntoView: true });
  view.focus();
  return true;
}
