/** Bytes that must come out as they went in: terminal frames, file texts, paths. */

import { describe, expect, it } from "vitest";
import { Text } from "@codemirror/state";
import { decodePath, encodePath } from "../src/api/path";
import { decodeFile, encodeFile } from "../src/editor/text";
import { bytesOf, inputFrame, leaseFrame, readFrame, resizeFrame } from "../src/terminal/frames";
import { ackEvery, OutputLedger } from "../src/terminal/ledger";

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const framed = (type: number, body: Uint8Array): ArrayBuffer => Uint8Array.from([type, ...body]).buffer;

describe("terminal frames", () => {
  it("hands output on as bytes, with a character cut in two left cut", () => {
    const first = readFrame(framed(1, bytes(0x41, 0xe2)));
    const second = readFrame(framed(1, bytes(0x94, 0x80)));
    expect(first).toEqual({ type: "output", data: bytes(0x41, 0xe2) });
    expect(second).toEqual({ type: "output", data: bytes(0x94, 0x80) });
  });

  it("reads an outcome, a place and a lease", () => {
    expect(readFrame(framed(3, utf8('{"kind":"exited","code":3}')))).toEqual({ type: "outcome", outcome: { kind: "exited", code: 3 } });
    expect(readFrame(framed(4, utf8('{"offset":12}')))).toEqual({ type: "flow", flow: { offset: 12 } });
    expect(readFrame(framed(5, utf8('{"holder":"bob","you":false}')))).toEqual({ type: "lease", lease: { holder: "bob", you: false } });
  });

  it("takes frames it does not know, and JSON that is none, for nothing", () => {
    expect(readFrame(framed(77, bytes(1)))).toEqual({ type: "unknown" });
    expect(readFrame(framed(4, utf8("{")))).toEqual({ type: "flow", flow: {} });
    expect(readFrame(new ArrayBuffer(0))).toEqual({ type: "unknown" });
  });

  it("writes input, sizes and the taking of the keyboard", () => {
    expect([...inputFrame(bytes(0xff, 3))]).toEqual([0, 0xff, 3]);
    expect(new TextDecoder().decode(resizeFrame(200, 50))).toBe('\u0002{"cols":200,"rows":50}');
    expect(new TextDecoder().decode(leaseFrame({ take: true }))).toBe('\u0005{"take":true}');
  });

  it("keeps mouse reports byte for byte", () => {
    expect([...bytesOf("\u001b[M\u00ff")]).toEqual([0x1b, 0x5b, 0x4d, 0xff]);
  });
});

describe("the ledger of output", () => {
  it("acknowledges what was drawn, never what only arrived", () => {
    const ledger = new OutputLedger();
    ledger.arrived(ackEvery * 3);
    expect(ledger.drew(ackEvery)).toBe(ackEvery);
    expect(ledger.drew(10)).toBeNull();
    expect(ledger.drew(ackEvery * 2 - 10)).toBe(ackEvery * 3);
  });

  it("acknowledges the last byte, so that a quiet terminal owes nothing", () => {
    const ledger = new OutputLedger();
    ledger.arrived(5);
    expect(ledger.drew(5)).toBe(5);
  });

  it("counts on over a reconnection while bytes still wait for the screen", () => {
    const ledger = new OutputLedger();
    ledger.arrived(100);
    ledger.drew(40);
    expect(ledger.startAt(100)).toEqual({ missing: 0, reset: false });
    expect(ledger.drew(60)).toBe(100);
  });

  it("notices output that is no longer kept, and a stream that began anew", () => {
    const ledger = new OutputLedger();
    ledger.arrived(100);
    expect(ledger.startAt(150)).toEqual({ missing: 50, reset: false });
    expect(ledger.startAt(0)).toEqual({ missing: 0, reset: true });
  });
});

describe("file texts", () => {
  /** What the editor does with a file that is opened and saved without an edit. */
  const roundTrip = (raw: Uint8Array): Uint8Array => {
    const decoded = decodeFile(raw)!;
    const doc = Text.of(decoded.text.split(decoded.separator));
    return encodeFile(doc.sliceString(0, doc.length, decoded.separator), decoded.bom);
  };

  const texts: Record<string, Uint8Array> = {
    "plain lines": utf8("a\nb\n"),
    "no final newline": utf8("a\nb"),
    "an empty file": bytes(),
    "CRLF": utf8("a\r\nb\r\n"),
    "mixed line ends": utf8("a\r\nb\nc\rd\r\r\n"),
    "a lone carriage return": utf8("progress 1\rprogress 2\n"),
    "a byte order mark": utf8("\ufeffa\nb\n"),
    "a byte order mark and CRLF": utf8("\ufeffa\r\nb\r\n"),
    "two byte order marks": utf8("\ufeff\ufeffa"),
    "line separators of Unicode": utf8("a\u2028b\u2029c\u0085d\n"),
    "every character that is no NUL below 128": bytes(...Array.from({ length: 127 }, (_, at) => at + 1)),
    "emoji and unassigned characters": utf8("👩‍👩‍👧 \u{10ffff} \ufffd\n"),
  };
  for (const [name, raw] of Object.entries(texts)) {
    it(`come back byte for byte: ${name}`, () => {
      expect([...roundTrip(raw)]).toEqual([...raw]);
      expect(decodeFile(raw)?.readOnly).toBe("");
    });
  }

  it("are refused where they are binary", () => {
    expect(decodeFile(bytes(0x89, 0x50, 0x4e, 0x47, 0))).toBeNull();
    expect(decodeFile(bytes(0xff, 0xfe, 0x61, 0))).toBeNull();
  });

  it("are read-only where they are no UTF-8", () => {
    expect(decodeFile(bytes(0x63, 0x61, 0x66, 0xe9))).toMatchObject({ text: "café" });
    expect(decodeFile(bytes(0x63, 0x61, 0x66, 0xe9))?.readOnly).not.toBe("");
  });
});

describe("paths", () => {
  const names = ["/home/user/a b.txt", "/tmp/%41?&#=+", "/日本語/👩‍👩‍👧", '/"><svg onload=alert(1)>', "/tmp/\ufeffbom"];
  for (const name of names) {
    it(`come back as they were: ${name}`, () => expect(decodePath(encodePath(name))).toBe(name));
  }

  it("carry names that are no UTF-8 byte for byte", () => {
    const encoded = "/tmp/caf%E9%FF%F0%9F%98";
    expect(encodePath(decodePath(encoded))).toBe("%2Ftmp%2Fcaf%E9%FF%F0%9F%98");
  });

  it("never throw on a lone surrogate from elsewhere", () => {
    expect(encodePath("\ud800")).toBe("%EF%BF%BD");
  });
});
