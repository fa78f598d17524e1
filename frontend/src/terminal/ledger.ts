/**
 * Counts a terminal's output: what was received, what the screen has drawn, what the server was told. Pure.
 *
 * The server sends a bounded stretch ahead of the last acknowledgement, so a flood stays in the guest's pipe instead of
 * this tab's memory, and Ctrl-C overtakes it. Offsets are bytes of the exec's output since its start.
 */

export const ackEvery = 64 * 1024;

export class OutputLedger {
  received = 0;
  drawn = 0;
  private acknowledged = 0;

  /**
   * The server says where its next byte stands. Bytes before it that never came are gone from its spool; an offset below
   * what came already is another life of the terminal. What still waits for the screen keeps its place in the count.
   */
  startAt(offset: number): { missing: number; reset: boolean } {
    const waiting = this.received - this.drawn;
    const missing = Math.max(0, offset - this.received);
    const reset = offset < this.received;
    this.received = offset;
    this.drawn = offset - waiting;
    this.acknowledged = this.drawn;
    return { missing, reset };
  }

  arrived(count: number): void {
    this.received += count;
  }

  /** The screen drew `count` more bytes; answers the offset to acknowledge now, or null. */
  drew(count: number): number | null {
    this.drawn += count;
    const due = this.drawn - this.acknowledged >= ackEvery || this.drawn === this.received;
    if (!due || this.drawn === this.acknowledged) return null;
    this.acknowledged = this.drawn;
    return this.drawn;
  }
}
