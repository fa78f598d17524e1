/** Two versions of one file side by side, in a part that is loaded only when somebody compares. Called by dialogs.ts. */

import { said } from "../api/client";
import type { Context } from "../commands/context";
import { sessionOf, theirVersion } from "../commands/editor";

export function compareInto(parent: HTMLElement, context: Context, path: string): () => void {
  let destroy = (): void => undefined;
  let gone = false;
  void show().catch((cause: unknown) => { parent.textContent = said(cause); });
  return () => { gone = true; destroy(); };

  async function show(): Promise<void> {
    const [{ compareView }, theirs] = await Promise.all([import("../editor/compare"), theirVersion(context, path)]);
    const mine = sessionOf(path)?.text ?? "";
    if (!gone) destroy = compareView(parent, theirs.decoded.text, mine, context.store.get().page.nonce);
  }
}
