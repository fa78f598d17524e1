/**
 * Plays a recording on a screen of its own: play, pause, seek, speed. Loaded by views/player.ts when one is played.
 *
 * It draws what was drawn and sends nothing: what the recorded program asked the terminal is not answered.
 */

import { indexAfter, sizeOf, type Cast } from "./cast";
import { paletteOf } from "./palette";
import { fontSize, newScreen } from "./screen";
import { withStyleNonce } from "./styles";

export interface PlayerHooks {
  /** Something to show changed: where it stands, whether it plays. */
  changed: (at: number, playing: boolean) => void;
}

const tickMs = 30;
const leastFontSize = 5;

export class Player {
  private readonly screen = newScreen(() => undefined);
  private next = 0;
  private at = 0;
  private speed = 1;
  private timer: ReturnType<typeof setInterval> | undefined;
  private last = 0;

  constructor(private readonly place: HTMLElement, private readonly cast: Cast, nonce: string, private readonly hooks: PlayerHooks) {
    this.screen.options.disableStdin = true;
    this.screen.options.theme = paletteOf();
    this.screen.resize(cast.cols, cast.rows);
    withStyleNonce(nonce, () => this.screen.open(place));
    this.scale();
  }

  get playing(): boolean {
    return this.timer !== undefined;
  }

  play(): void {
    if (this.playing) return;
    if (this.at >= this.cast.seconds) this.seek(0);
    this.last = performance.now();
    this.timer = setInterval(() => this.tick(), tickMs);
    this.told();
  }

  pause(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.told();
  }

  run(speed: number): void {
    this.speed = speed;
  }

  seek(at: number): void {
    const wanted = Math.min(this.cast.seconds, Math.max(0, at));
    if (wanted < this.at) {
      this.screen.reset();
      this.screen.resize(this.cast.cols, this.cast.rows);
      this.next = 0;
    }
    this.draw(wanted);
  }

  close(): void {
    clearInterval(this.timer);
    this.screen.dispose();
  }

  private tick(): void {
    const now = performance.now();
    this.draw(Math.min(this.cast.seconds, this.at + (now - this.last) / 1000 * this.speed));
    this.last = now;
    if (this.at >= this.cast.seconds) this.pause();
  }

  /** Everything up to `at`, output in one piece between changes of size. */
  private draw(at: number): void {
    const end = indexAfter(this.cast.events, at);
    let text = "";
    for (const event of this.cast.events.slice(this.next, end)) {
      if (event.kind === "o") text += event.text;
      else {
        this.screen.write(text);
        text = "";
        const size = sizeOf(event);
        this.screen.write("", () => { this.screen.resize(size.cols, size.rows); this.scale(); });
      }
    }
    if (text) this.screen.write(text);
    this.next = Math.max(this.next, end);
    this.at = at;
    this.told();
  }

  private scale(): void {
    const natural = this.place.querySelector<HTMLElement>(".xterm-screen");
    if (!natural || this.place.clientWidth === 0) return;
    this.screen.options.fontSize = fontSize;
    const ratio = Math.min(1, this.place.clientWidth / natural.offsetWidth, this.place.clientHeight / natural.offsetHeight);
    this.screen.options.fontSize = Math.max(leastFontSize, Math.floor(fontSize * ratio * 2) / 2);
  }

  private told(): void {
    this.hooks.changed(this.at, this.playing);
  }
}
