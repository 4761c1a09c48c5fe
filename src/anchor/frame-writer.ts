import { BadInput } from "../errors.js";
import { maxFrameBytes } from "./protocol.js";

const HEAD = 5;
const TWO_32 = 0x1_0000_0000;
const MAX_ID = 0xffff_ffff_ffff_ffffn;
/** Below this, reserving the worst case (3 bytes a character) is cheaper than measuring first. */
const MEASURE_FROM = 1024;

/** Builds one frame in one buffer. `what` in each method names the field to whoever passed a bad value. */
export class FrameWriter {
  #bytes: Buffer;
  #at = HEAD;

  constructor(type: number, sizeHint = 256) {
    this.#bytes = Buffer.allocUnsafe(sizeHint);
    this.#bytes.writeUInt8(type, 4);
  }

  int(tag: number, value: number, what: string): void {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new BadInput(what, `${what} must be a whole number from 0 up, not ${value}; nothing was sent`);
    }
    const at = this.#field(tag, 8);
    this.#bytes.writeUInt32LE(value % TWO_32, at);
    this.#bytes.writeUInt32LE(Math.floor(value / TWO_32), at + 4);
  }

  id(tag: number, value: string, what: string): void {
    if (!/^\d{1,20}$/.test(value) || BigInt(value) > MAX_ID) {
      throw new BadInput(what, `${what} must be a 64-bit number in decimal; nothing was sent`);
    }
    const at = this.#field(tag, 8);
    this.#bytes.writeBigUInt64LE(BigInt(value), at);
  }

  text(tag: number, value: string, what: string): void {
    if (value.includes("\0")) throw new BadInput(what, `${what} contains a NUL character; nothing was sent`);
    const room = value.length < MEASURE_FROM ? value.length * 3 : Buffer.byteLength(value);
    this.#reserve(HEAD + room);
    const written = this.#bytes.write(value, this.#at + HEAD, "utf8");
    this.#field(tag, written);
  }

  bytes(tag: number, value: Uint8Array): void {
    const at = this.#field(tag, value.length);
    this.#bytes.set(value, at);
  }

  finish(): Buffer {
    const type = this.#bytes.readUInt8(4);
    const most = maxFrameBytes(type);
    if (this.#at > most) {
      throw new BadInput("size", `the request is ${this.#at} bytes, ${most} are possible; nothing was sent`);
    }
    this.#bytes.writeUInt32LE(this.#at - 4, 0);
    return this.#bytes.subarray(0, this.#at);
  }

  /** Writes a field's head and steps over its value; returns where the value goes. */
  #field(tag: number, length: number): number {
    this.#reserve(HEAD + length);
    this.#bytes.writeUInt8(tag, this.#at);
    this.#bytes.writeUInt32LE(length, this.#at + 1);
    const at = this.#at + HEAD;
    this.#at = at + length;
    return at;
  }

  #reserve(more: number): void {
    const wanted = this.#at + more;
    if (wanted <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(wanted, this.#bytes.length * 2));
    this.#bytes.copy(grown, 0, 0, this.#at);
    this.#bytes = grown;
  }
}
