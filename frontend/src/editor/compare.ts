/**
 * Theirs and mine side by side; on the right stands what will be saved, hunk by hunk from the left or as it is typed.
 * Loaded on demand by views/compare.ts.
 */

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { goToNextChunk, goToPreviousChunk, MergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { nameFolds, openableFolds } from "./folds";
import { editorLook } from "./theme";

export interface Merging {
  text: () => string;
  take: (text: string) => void;
  close: () => void;
}

export function mergeView(parent: HTMLElement, theirs: string, mine: string, nonce: string): Merging {
  const both = (label: string): Extension => [
    EditorState.lineSeparator.of("\n"), EditorView.cspNonce.of(nonce), EditorView.contentAttributes.of({ "aria-label": label }), lineNumbers(), EditorView.lineWrapping, editorLook, openableFolds(),
    keymap.of([{ key: "Alt-ArrowDown", run: goToNextChunk }, { key: "Alt-ArrowUp", run: goToPreviousChunk }, ...defaultKeymap, ...historyKeymap]),
  ];
  // Of a file that mixes line ends each line keeps its own: nothing but a line feed parts lines here.
  const view = new MergeView({
    parent, collapseUnchanged: { margin: 3, minSize: 6 }, revertControls: "a-to-b", renderRevertControl: takeButton,
    a: { doc: theirs, extensions: [EditorState.readOnly.of(true), both("Theirs")] },
    b: { doc: mine, extensions: [history(), both("What will be saved")] },
  });
  for (const side of [view.a, view.b]) nameFolds(side);
  return {
    text: () => view.b.state.doc.toString(),
    take: (text) => view.b.dispatch({ changes: { from: 0, to: view.b.state.doc.length, insert: text } }),
    close: () => view.destroy(),
  };
}

function takeButton(): HTMLElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "take-hunk";
  button.textContent = "→";
  button.title = "Take theirs here";
  button.setAttribute("aria-label", "Take theirs here");
  return button;
}
