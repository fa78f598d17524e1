/** Two texts side by side with their differences marked. Loaded on demand by views/compare.ts. */

import { MergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, lineNumbers } from "@codemirror/view";
import { editorLook } from "./theme";

export function compareView(parent: HTMLElement, theirs: string, mine: string, nonce: string): () => void {
  const reading: Extension = [
    EditorState.readOnly.of(true), EditorView.cspNonce.of(nonce), lineNumbers(), EditorView.lineWrapping, editorLook,
  ];
  const view = new MergeView({
    parent, a: { doc: theirs, extensions: reading }, b: { doc: mine, extensions: reading },
    collapseUnchanged: { margin: 3, minSize: 6 },
  });
  return () => view.destroy();
}
