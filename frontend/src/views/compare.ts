/** Merges the two versions of a conflict in a dialog; the view itself is loaded when somebody first compares. */

import type { Context } from "../commands/context";
import * as editor from "../commands/editor";
import type { Merging } from "../editor/compare";
import { baseName } from "../state/words";
import type { Shown } from "./dialogs";
import { h } from "./dom";
import { button } from "./parts";

interface Open extends Merging { theirs: string; mine: string; etag: string }

/** There is one such dialog at a time. */
let open: Open | null = null;

export function compareDialog(context: Context, path: string): Shown {
  const close = (): void => context.store.dispatch({ type: "dialog.closed" });
  return {
    title: `${baseName(path)}: theirs and yours`, verb: "Save what is on the right", wide: true,
    body: [
      h("div", { class: "compare-heads" },
        h("span", null, "In the workspace now"),
        h("span", { class: "compare-mine" }, "Yours, not saved",
          button("Take theirs", () => open?.take(open.theirs), { class: "small" }),
          button("Take mine", () => open?.take(open.mine), { class: "small" }))),
      h("div", { class: "compare", hosted: true, mount: (element) => fillIn(element, context, path) }),
      h("p", { class: "hint" }, "An arrow between the two takes that part of theirs. The right side can be typed into."),
    ],
    act: () => {
      if (!open) return;
      const text = open.text(), { etag } = open;
      close();
      void editor.saveMerged(context, path, text, etag);
    },
  };
}

function fillIn(element: HTMLElement, context: Context, path: string): () => void {
  let closed = false;
  void Promise.all([import("../editor/compare"), editor.theirVersion(context, path)]).then(([{ mergeView }, { decoded, etag }]) => {
    const mine = editor.sessionOf(path)?.lines ?? "";
    const theirs = decoded.text.split(decoded.separator).join("\n");
    if (!closed) open = { ...mergeView(element, theirs, mine, context.store.get().page.nonce), theirs, mine, etag };
  }, (cause: unknown) => { element.textContent = cause instanceof Error ? cause.message : String(cause); });
  return () => {
    closed = true;
    open?.close();
    open = null;
  };
}
