/**
 * Tells when this page may have lost its connections without being told: the network came back, or the machine slept.
 *
 * Called by events/socket.ts. A browser notices a dead socket only when it writes, which can take many minutes; a clock
 * that jumped tells at once.
 */

const lookEveryMs = 10_000;

/** Timers of a page in the background run late, up to a minute; only a longer gap is sleep. */
export const sleptAfterMs = 75_000;

export function slept(beforeMs: number, nowMs: number): boolean {
  return nowMs - beforeMs > sleptAfterMs;
}

export function onAwake(listener: () => void): () => void {
  let looked = Date.now();
  const look = setInterval(() => {
    const before = looked;
    looked = Date.now();
    if (slept(before, looked)) listener();
  }, lookEveryMs);
  addEventListener("online", listener);
  return () => {
    clearInterval(look);
    removeEventListener("online", listener);
  };
}
