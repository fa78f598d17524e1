/**
 * One open file in CodeMirror. Called by commands/editor.ts (life, bytes) and views (where it stands on the page).
 *
 * It knows which document was last saved and with which ETag, so "dirty" compares texts, never clocks: what is typed
 * while a save is under way stays dirty (field case 124).
 */

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentOnInput, indentUnit, LanguageDescription } from "@codemirror/language";
import { languages } from "@codemirror/language-data";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorSelection, EditorState, Text } from "@codemirror/state";
import {
  drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers,
} from "@codemirror/view";
import { encodeFile, type Decoded } from "./text";
import { editorLook } from "./theme";

export interface EditorHooks {
  changed: (dirty: boolean) => void;
}

export class EditorSession {
  readonly view: EditorView;
  etag: string;
  private saved: Text;
  private readonly language = new Compartment();
  private readonly locked = new Compartment();
  private wasDirty = false;

  constructor(name: string, private decoded: Decoded, etag: string, nonce: string, private readonly hooks: EditorHooks) {
    this.etag = etag;
    this.view = new EditorView({ state: this.stateFor(name, nonce) });
    this.saved = this.view.state.doc;
    void this.speak(name);
  }

  showIn(parent: HTMLElement): void {
    parent.replaceChildren(this.view.dom);
    this.view.requestMeasure();
  }

  /** The bytes to save now, and the document they are made of. */
  snapshot(): { doc: Text; bytes: Uint8Array<ArrayBuffer> } {
    const doc = this.view.state.doc;
    return { doc, bytes: encodeFile(this.textOf(doc), this.decoded.bom) };
  }

  savedAs(doc: Text, etag: string): void {
    this.saved = doc;
    this.etag = etag;
    this.tell();
  }

  /** The file as somebody else left it replaces what is here. Undo brings the old text back. */
  load(decoded: Decoded, etag: string): void {
    this.decoded = decoded;
    this.put(Text.of(decoded.text.split(decoded.separator)));
    this.savedAs(this.view.state.doc, etag);
  }

  /** Another text in the place of this one, not saved yet. */
  replace(text: string): void {
    this.put(Text.of(text.split("\n")));
  }

  /** Only what differs is replaced, so the cursor, the selection and what is seen stay where they are in the text. */
  private put(doc: Text): void {
    const [was, now] = [this.view.state.doc.toString(), doc.toString()];
    const least = Math.min(was.length, now.length);
    let from = 0, end = 0;
    while (from < least && was[from] === now[from]) from += 1;
    while (end < least - from && was[was.length - 1 - end] === now[now.length - 1 - end]) end += 1;
    if (from < was.length || from < now.length) {
      this.view.dispatch({ changes: { from, to: was.length - end, insert: doc.slice(from, now.length - end) } });
    }
  }

  /** Puts the cursor on a line, around the first thing in it that fits, and shows it in the middle. */
  reveal(number: number, pattern: RegExp | null): void {
    const line = this.view.state.doc.line(Math.min(Math.max(1, number), this.view.state.doc.lines));
    const found = pattern?.exec(line.text);
    const from = line.from + (found?.index ?? 0);
    const range = EditorSelection.range(from, from + (found?.[0].length ?? 0));
    this.view.dispatch({ selection: range, effects: EditorView.scrollIntoView(range, { y: "center" }) });
  }

  /** Whether it may be read only. */
  lock(readOnly: boolean): void {
    this.view.dispatch({ effects: this.locked.reconfigure(EditorState.readOnly.of(readOnly)) });
  }

  get dirty(): boolean {
    return !this.view.state.doc.eq(this.saved);
  }

  get text(): string {
    return this.textOf(this.view.state.doc);
  }

  /** The text with plain line ends, as a comparison reads it. */
  get lines(): string {
    return this.view.state.doc.toString();
  }

  focus(): void {
    this.view.focus();
  }

  close(): void {
    this.view.destroy();
  }

  // The separator of the version loaded last: the editor's own facet keeps that of the first one.
  private textOf(doc: Text): string {
    return doc.sliceString(0, doc.length, this.decoded.separator);
  }

  private tell(): void {
    if (this.dirty === this.wasDirty) return;
    this.wasDirty = this.dirty;
    this.hooks.changed(this.wasDirty);
  }

  private stateFor(name: string, nonce: string): EditorState {
    return EditorState.create({
      doc: this.decoded.text,
      extensions: [
        EditorState.lineSeparator.of(this.decoded.separator),
        this.locked.of(EditorState.readOnly.of(this.decoded.readOnly !== "")),
        EditorView.cspNonce.of(nonce),
        EditorView.contentAttributes.of({ "aria-label": `Contents of ${name}` }),
        lineNumbers(), highlightSpecialChars(), history(), drawSelection(), indentOnInput(), bracketMatching(),
        highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(), indentUnit.of("    "),
        keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, indentWithTab]),
        this.language.of([]), editorLook,
        // Pasted text takes the file's own line ends, whatever system it was copied on.
        EditorView.clipboardInputFilter.of((text, state) => text.replace(/\r\n?|\n/g, state.lineBreak)),
        EditorView.updateListener.of((update) => { if (update.docChanged) this.tell(); }),
      ],
    });
  }

  /** The language comes when it is needed, in a file of its own; until then the text is plain. */
  private async speak(name: string): Promise<void> {
    const described = LanguageDescription.matchFilename(languages, name);
    if (!described) return;
    const support = await described.load().catch(() => null);
    if (support) this.view.dispatch({ effects: this.language.reconfigure(support) });
  }
}
