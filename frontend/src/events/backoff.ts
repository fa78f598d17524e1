/**
 * How long to wait before the next try. Pure given `random`; used by both kinds of sockets.
 *
 * Full jitter: a thousand pages that lost the same server do not come back in the same millisecond.
 */

export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const ceiling = Math.min(15_000, 400 * 2 ** Math.min(attempt, 10));
  return Math.round(ceiling / 2 + (ceiling / 2) * random());
}
