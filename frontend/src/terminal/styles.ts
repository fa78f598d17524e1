/**
 * Lets xterm.js add its style sheets under a strict Content-Security-Policy. Called by session.ts.
 *
 * The policy allows a style element only with the page's nonce, and xterm.js has no option for one. It makes all of them
 * while it opens, so for that moment (and no longer) a new style element gets the nonce at birth.
 */

export function withStyleNonce<T>(nonce: string, work: () => T): T {
  const plain = document.createElement;
  const withNonce = (tag: string, options?: ElementCreationOptions): HTMLElement => {
    const element = plain.call(document, tag, options);
    if (tag.toLowerCase() === "style") element.nonce = nonce;
    return element;
  };
  document.createElement = withNonce as typeof document.createElement;
  try {
    return work();
  } finally {
    document.createElement = plain;
  }
}
