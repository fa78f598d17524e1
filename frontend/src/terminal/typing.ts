/**
 * What a person types or pastes, on its way out in order. Called by connection.ts; pure but for its timer.
 *
 * A large paste goes in pieces, only as fast as the connection takes them, so Ctrl-C typed behind it is not stuck behind
 * it: an interrupt drops what of a paste has not been sent. Without a connection nothing is kept: nobody wants
 * yesterday's Enter to arrive today.
 */

export const pieceBytes = 16 * 1024;
const aheadBytes = 128 * 1024;
const againMs = 20;
const interrupt = 3;

export class TypingQueue {
  private waiting: Uint8Array[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly send: (data: Uint8Array) => boolean, private readonly bufferedBytes: () => number) {}

  add(data: Uint8Array): void {
    if (data.length === 1 && data[0] === interrupt) this.clear();
    for (let at = 0; at < data.length; at += pieceBytes) this.waiting.push(data.subarray(at, at + pieceBytes));
    this.flush();
  }

  clear(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.waiting = [];
  }

  private flush(): void {
    if (this.timer !== undefined) return;
    while (this.waiting.length > 0) {
      if (this.bufferedBytes() > aheadBytes) {
        this.timer = setTimeout(() => { this.timer = undefined; this.flush(); }, againMs);
        return;
      }
      if (!this.send(this.waiting.shift()!)) return this.clear();
    }
  }
}
