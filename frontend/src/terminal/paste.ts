/**
 * A pasted text as a terminal takes it. Pure; called by session.ts.
 *
 * Line ends become Enter. Control characters are left out: a text copied from a page may hide an interrupt, or the end of
 * the very brackets that keep a shell from running it.
 */

const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u0080-\u009f]/g;

export function pasted(text: string, bracketed: boolean): string {
  const clean = text.replace(/\r?\n/g, "\r").replace(controls, "");
  return bracketed ? `\u001b[200~${clean}\u001b[201~` : clean;
}

/** How many commands a shell that does not know pastes would run at once. */
export function linesIn(text: string): number {
  return text.replace(/\r\n?/g, "\n").replace(/\n+$/, "").split("\n").length;
}

/** A shell that is told where a paste begins and ends runs nothing of it by itself; any other runs every line. */
export function mustAsk(text: string, bracketed: boolean): boolean {
  return !bracketed && linesIn(text) > 1;
}
