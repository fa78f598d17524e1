/**
 * One terminal's bytes between the server and a screen. Called by terminal/session.ts; calls events/socket.ts.
 *
 * It survives losses: the next connection asks for the output after what has already come. Input typed while there is no
 * connection is refused (answer false), never queued: nobody wants yesterday's Enter to arrive today.
 */

import type { Outcome, TerminalStatus } from "../state/types";
import { LastingSocket, socketUrl } from "../events/socket";
import { ackFrame, inputFrame, leaseFrame, readFrame, resizeFrame, type Lease, type LeaseWord } from "./frames";
import { OutputLedger } from "./ledger";
import { TypingQueue } from "./typing";

export interface ConnectionHooks {
  /** Draw these bytes, then call `drawn`. */
  output: (data: Uint8Array, drawn: () => void) => void;
  /** Output of this many bytes is no longer kept by the server, or the stream began anew. */
  gap: (missing: number, reset: boolean) => void;
  status: (status: TerminalStatus, outcome: Outcome | null) => void;
  lease: (lease: Lease) => void;
  /** A workspace at rest is not asked: asking would wake it. */
  mayConnect: () => boolean;
}

export class TerminalConnection {
  private readonly ledger = new OutputLedger();
  private readonly socket: LastingSocket;
  private readonly typing: TypingQueue;
  private size = { cols: 0, rows: 0 };
  private over = false;

  constructor(private readonly path: string, private readonly hooks: ConnectionHooks) {
    this.socket = new LastingSocket({
      url: () => socketUrl(`${this.path}?offset=${this.ledger.received}`),
      opened: () => this.opened(),
      message: (data) => this.frame(data),
      lost: () => { if (!this.over) hooks.status("waiting", null); },
      mayConnect: hooks.mayConnect,
      refused: () => { if (!this.over) hooks.status("ended", { kind: "lost", reason: "the terminal is gone" }); },
    });
    this.typing = new TypingQueue((data) => !this.over && this.socket.send(inputFrame(data)), () => this.socket.bufferedBytes);
  }

  input(data: Uint8Array): void {
    this.typing.add(data);
  }

  get knowsSize(): boolean {
    return this.size.cols > 0;
  }

  resize(cols: number, rows: number): void {
    this.size = { cols, rows };
    this.socket.send(resizeFrame(cols, rows));
  }

  say(word: LeaseWord): void {
    this.socket.send(leaseFrame(word));
  }

  reconnect(): void {
    this.socket.retryNow();
  }

  close(): void {
    this.over = true;
    this.typing.clear();
    this.socket.close();
  }

  private opened(): void {
    this.hooks.status("live", null);
    if (this.size.cols > 0) this.resize(this.size.cols, this.size.rows);
  }

  private frame(message: string | ArrayBuffer): void {
    if (typeof message === "string") return;
    const frame = readFrame(message);
    if (frame.type === "output") this.output(frame.data);
    else if (frame.type === "flow") this.place(frame.flow.offset);
    else if (frame.type === "lease") this.hooks.lease(frame.lease);
    else if (frame.type === "outcome") this.ended(frame.outcome);
  }

  private output(data: Uint8Array): void {
    this.ledger.arrived(data.length);
    this.hooks.output(data, () => {
      const offset = this.ledger.drew(data.length);
      if (offset !== null) this.socket.send(ackFrame(offset));
    });
  }

  private place(offset: number | undefined): void {
    if (offset === undefined) return;
    const before = this.ledger.received;
    const { missing, reset } = this.ledger.startAt(offset);
    if (reset || (missing > 0 && before > 0)) this.hooks.gap(missing, reset);
  }

  private ended(outcome: Outcome | null): void {
    this.over = true;
    this.socket.close();
    this.hooks.status("ended", outcome);
  }
}
