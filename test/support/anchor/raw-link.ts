import { connect, type Socket } from "node:net";
import { FrameDecoder } from "../../../src/anchor/protocol/frame.js";
import {
  type AnchorMessage,
  type AnchorMessageName,
  decodeMessage,
  type MessageFields,
} from "../../../src/anchor/protocol/message-codec.js";

type Received<N extends AnchorMessageName> = { readonly name: N } & MessageFields<N>;

interface Waiter {
  readonly name: AnchorMessageName;
  readonly resolve: (message: AnchorMessage) => void;
  readonly reject: (error: Error) => void;
}

/** Far above the time of any answer; only limits a hang. */
const TIMEOUT_MS = 5_000;

/** One connection that sends and receives raw frames. */
export class RawLink {
  readonly socket: Socket;
  /** All received messages, in order. */
  readonly received: AnchorMessage[] = [];
  readonly #closed: Promise<void>;
  readonly #unread: AnchorMessage[] = [];
  #waiters: Waiter[] = [];
  #over = false;

  static async open(path: string): Promise<RawLink> {
    for (;;) {
      const socket = connect({ path });
      const link = new RawLink(socket);
      const error = await new Promise<NodeJS.ErrnoException | null>((resolve) => {
        socket.once("connect", () => resolve(null));
        socket.once("error", resolve);
      });
      if (error === null) return link;
      // The backlog is full: connect(2) on a local socket does not wait for room in it.
      if (error.code !== "EAGAIN") throw error;
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  private constructor(socket: Socket) {
    this.socket = socket;
    const decoder = new FrameDecoder();
    socket.on("data", (chunk) => {
      for (const frame of decoder.push(chunk)) {
        const message = decodeMessage(frame);
        if (message !== null) this.#hear(message);
      }
    });
    // A reset counts as a close here.
    socket.on("error", () => {});
    this.#closed = new Promise((resolve) => {
      socket.once("close", () => {
        this.#over = true;
        for (const { name, reject } of this.#waiters) reject(new Error(`closed without ${name}`));
        this.#waiters = [];
        resolve();
      });
    });
  }

  get isOpen(): boolean {
    return !this.#over;
  }

  send(...frames: Buffer[]): void {
    if (this.socket.writable) this.socket.write(Buffer.concat(frames));
  }

  /** One byte per packet, each sent before the next. */
  async sendByteByByte(bytes: Buffer): Promise<void> {
    this.socket.setNoDelay(true);
    for (const byte of bytes) {
      await new Promise<void>((resolve) => this.socket.write(Buffer.of(byte), () => resolve()));
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  /** Takes the first message of that name that was not taken yet. */
  receive<N extends AnchorMessageName>(name: N): Promise<Received<N>> {
    const at = this.#unread.findIndex((message) => message.name === name);
    const [found] = at < 0 ? [] : this.#unread.splice(at, 1);
    if (found !== undefined) return Promise.resolve(found as Received<N>);
    if (this.#over) return Promise.reject(new Error(`closed without ${name}`));
    return new Promise<Received<N>>((resolve, reject) => {
      const timer = setTimeout(() => waiter.reject(new Error(`no ${name} came`)), TIMEOUT_MS);
      const waiter: Waiter = {
        name,
        resolve: (message) => {
          clearTimeout(timer);
          resolve(message as Received<N>);
        },
        reject: (error) => {
          clearTimeout(timer);
          this.#waiters = this.#waiters.filter((each) => each !== waiter);
          reject(error);
        },
      };
      this.#waiters.push(waiter);
    });
  }

  /** Resolves when either side has closed the connection. */
  async ended(): Promise<void> {
    const late = Symbol("late");
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise((resolve) => {
      timer = setTimeout(() => resolve(late), TIMEOUT_MS);
    });
    const first = await Promise.race([this.#closed, patience]);
    clearTimeout(timer);
    if (first === late) throw new Error("the connection was not closed");
  }

  close(): void {
    this.socket.destroy();
  }

  #hear(message: AnchorMessage): void {
    this.received.push(message);
    const waiter = this.#waiters.find(({ name }) => name === message.name);
    if (waiter === undefined) {
      this.#unread.push(message);
      return;
    }
    this.#waiters = this.#waiters.filter((each) => each !== waiter);
    waiter.resolve(message);
  }
}

/** Builds frames of any shape, also invalid ones that the product's codec refuses to write. */
export function rawFrame(type: number, ...fields: Buffer[]): Buffer {
  const body = Buffer.concat(fields);
  const head = Buffer.alloc(5);
  head.writeUInt32LE(1 + body.length, 0);
  head.writeUInt8(type, 4);
  return Buffer.concat([head, body]);
}

export function rawField(tag: number, value: Buffer | string | number | bigint): Buffer {
  const bytes =
    typeof value === "number" || typeof value === "bigint" ? eightBytes(BigInt(value)) : Buffer.from(value);
  const head = Buffer.alloc(5);
  head.writeUInt8(tag, 0);
  head.writeUInt32LE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** Appends fields to a frame. */
export function withFields(frame: Buffer, ...fields: Buffer[]): Buffer {
  const longer = Buffer.concat([frame, ...fields]);
  longer.writeUInt32LE(longer.length - 4, 0);
  return longer;
}

function eightBytes(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}
