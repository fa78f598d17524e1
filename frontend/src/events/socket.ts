/**
 * A WebSocket that comes back. Called by events/feed.ts and terminal/connection.ts; knows nothing of what it carries.
 *
 * After a loss it waits with jitter and asks `url()` again, so that the next connection starts where the last one ended.
 * A page that comes to the front tries at once; one that was asleep or offline does not trust the socket it has. Close codes 4401, 4403, 4404 and 4410 are answers,
 * not losses: no retry.
 */

import { onAwake } from "./awake";
import { backoffMs } from "./backoff";

export interface SocketHooks {
  url: () => string;
  opened: () => void;
  message: (data: string | ArrayBuffer) => void;
  lost: () => void;
  refused: (code: number) => void;
  /** Where it answers false no connection is made; whoever knows that it may be now calls `retryNow`. */
  mayConnect?: () => boolean;
}

const finalCodes = new Set([1008, 4400, 4401, 4403, 4404, 4409, 4410]);

export class LastingSocket {
  private socket: WebSocket | null = null;
  private attempt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private ended = false;
  private readonly retry = (): void => this.retryNow();
  private readonly stopListening: () => void;

  constructor(private readonly hooks: SocketHooks) {
    document.addEventListener("visibilitychange", this.retry);
    this.stopListening = onAwake(() => this.distrust());
    this.connect();
  }

  send(data: string | Uint8Array<ArrayBuffer>): boolean {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(data);
    return true;
  }

  /** What was sent and has not left yet. */
  get bufferedBytes(): number {
    return this.socket?.bufferedAmount ?? 0;
  }

  close(): void {
    this.ended = true;
    clearTimeout(this.timer);
    this.stopListening();
    document.removeEventListener("visibilitychange", this.retry);
    this.socket?.close();
  }

  private connect(): void {
    if (this.hooks.mayConnect?.() === false) return;
    const socket = new WebSocket(this.hooks.url());
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => { if (socket === this.socket) this.hooks.opened(); };
    socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
      if (socket !== this.socket) return;
      this.attempt = 0;
      this.hooks.message(event.data);
    };
    socket.onclose = (event) => this.closed(socket, event.code);
  }

  private closed(socket: WebSocket, code: number): void {
    if (this.ended || socket !== this.socket) return;
    this.socket = null;
    if (finalCodes.has(code)) {
      this.close();
      this.hooks.refused(code);
      return;
    }
    this.hooks.lost();
    this.timer = setTimeout(() => this.connect(), backoffMs(this.attempt++));
  }

  private distrust(): void {
    const old = this.socket;
    this.socket = null;
    old?.close();
    this.retryNow();
  }

  retryNow(): void {
    if (this.ended || this.socket) return;
    clearTimeout(this.timer);
    this.connect();
  }
}

export function socketUrl(path: string): string {
  const url = new URL(path, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}
