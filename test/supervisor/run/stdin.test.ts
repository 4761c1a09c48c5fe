import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StdinClosed } from "../../../src/errors.js";
import { Stdin, type StdinLink } from "../../../src/supervisor/run/stdin.js";

/** The anchor's side of the protocol: repeats are ignored, gaps and excess refused. */
class Receiver {
  readonly bytes: number[] = [];
  readonly window: number;
  accepted = 0;
  ended = -1;

  constructor(window: number) {
    this.window = window;
  }

  get limit(): number {
    return this.accepted + this.window;
  }

  get credit() {
    return { accepted: this.accepted, limit: this.limit, closed: false };
  }

  /** A connection that loses everything sent after `sever`. Bytes count once `accept` is called. */
  connect(): StdinLink & { sever(): void; deliver(): void } {
    let severed = false;
    let inFlight: (() => void)[] = [];
    return {
      write: (offset, data) => {
        if (offset + data.length > this.limit) throw new Error("past the limit");
        const copy = [...data];
        inFlight.push(() => this.#take(offset, copy));
      },
      closeStdin: (offset) => {
        inFlight.push(() => {
          if (offset !== this.accepted) throw new Error("closed with bytes missing");
          this.ended = offset;
        });
      },
      sever: () => {
        severed = true;
      },
      deliver: () => {
        const arrived = inFlight;
        inFlight = [];
        if (!severed) for (const each of arrived) each();
      },
    };
  }

  #take(offset: number, data: number[]): void {
    if (offset > this.accepted) throw new Error("a gap");
    const fresh = data.slice(this.accepted - offset);
    this.bytes.push(...fresh);
    this.accepted += fresh.length;
  }
}

const settled = async (promise: Promise<void>): Promise<"resolved" | "rejected" | "pending"> =>
  Promise.race([
    promise.then(
      () => "resolved" as const,
      () => "rejected" as const,
    ),
    new Promise<"pending">((resolve) => setImmediate(() => resolve("pending"))),
  ]);

describe("input by offsets", () => {
  test("a write is done when the anchor has accepted its last byte, not before", async () => {
    const stdin = new Stdin("run_1");
    const receiver = new Receiver(4);
    const link = receiver.connect();
    stdin.attach(link, receiver.credit);
    const written = stdin.write("abcdef");
    link.deliver();
    stdin.credit({ accepted: 4, limit: 4, closed: false });
    expect(await settled(written)).toBe("pending");
    stdin.credit(receiver.credit);
    link.deliver();
    stdin.credit(receiver.credit);
    await written;
    expect(Buffer.from(receiver.bytes).toString()).toBe("abcdef");
  });

  test("input written without a connection is sent on the next one", async () => {
    const stdin = new Stdin("run_1");
    const written = stdin.write("early");
    const receiver = new Receiver(100);
    const link = receiver.connect();
    stdin.attach(link, receiver.credit);
    link.deliver();
    stdin.credit(receiver.credit);
    await written;
    expect(receiver.accepted).toBe(5);
  });

  test("after a reattach, input continues at the accepted offset", () => {
    const sent: number[] = [];
    const stdin = new Stdin("run_1", 1_000);
    stdin.attach(
      { write: (offset) => sent.push(offset), closeStdin: () => undefined },
      { accepted: 1_000, limit: 2_000, closed: false },
    );
    void stdin.write("x");
    expect(sent).toEqual([1_000]);
  });

  test("the end follows the last byte, and is repeated on a new connection", async () => {
    const stdin = new Stdin("run_1");
    const receiver = new Receiver(2);
    const first = receiver.connect();
    stdin.attach(first, receiver.credit);
    const written = stdin.write("abcd");
    const closed = stdin.close();
    first.deliver();
    first.sever();
    expect(await settled(closed)).toBe("pending");
    const second = receiver.connect();
    stdin.attach(second, receiver.credit);
    second.deliver();
    stdin.credit(receiver.credit);
    second.deliver();
    await Promise.all([written, closed]);
    expect(receiver.ended).toBe(4);
    const third = receiver.connect();
    stdin.attach(third, receiver.credit);
    third.deliver();
    expect(receiver.ended).toBe(4);
  });

  test("when the program closes its stdin, accepted writes resolve and the others are refused", async () => {
    const stdin = new Stdin("run_1");
    const receiver = new Receiver(3);
    const link = receiver.connect();
    stdin.attach(link, receiver.credit);
    const taken = stdin.write("abc");
    const refused = stdin.write("def");
    link.deliver();
    stdin.credit({ ...receiver.credit, closed: true });
    await taken;
    await expect(refused).rejects.toThrow(StdinClosed);
    await expect(stdin.write("more")).rejects.toMatchObject({ code: "STDIN_CLOSED", runId: "run_1" });
    await stdin.close();
  });

  test("after closing, a write is refused", async () => {
    const stdin = new Stdin("run_1");
    void stdin.close();
    await expect(stdin.write("late")).rejects.toThrow("was closed before");
  });

  test("the end of the run rejects pending writes and resolves a close", async () => {
    const stdin = new Stdin("run_1");
    const written = stdin.write("abc");
    const closed = stdin.close();
    stdin.end("the run has ended");
    await expect(written).rejects.toThrow("the run has ended");
    await closed;
  });

  test("an empty write resolves at once", async () => {
    await new Stdin("run_1").write("");
  });
});

test("every byte arrives once and in order, whatever connections break", async () => {
  const action = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        type: fc.constant("write" as const),
        length: fc.integer({ min: 1, max: 200_000 }),
      }),
    },
    { weight: 4, arbitrary: fc.constant({ type: "deliver" as const, length: 0 }) },
    { weight: 2, arbitrary: fc.constant({ type: "break" as const, length: 0 }) },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(action, { maxLength: 30 }),
      fc.integer({ min: 1, max: 150_000 }),
      async (actions, window) => {
        const stdin = new Stdin("run_1");
        const receiver = new Receiver(window);
        let link = receiver.connect();
        stdin.attach(link, receiver.credit);
        const writes: Promise<void>[] = [];
        let written = 0;
        for (const { type, length } of actions) {
          if (type === "write") {
            writes.push(stdin.write(pattern(written, length)));
            written += length;
          } else if (type === "deliver") {
            link.deliver();
            stdin.credit(receiver.credit);
          } else {
            link.sever();
            stdin.detach();
            link = receiver.connect();
            stdin.attach(link, receiver.credit);
          }
        }
        while (receiver.accepted < written) {
          link.deliver();
          stdin.credit(receiver.credit);
        }
        await Promise.all(writes);
        expect(Buffer.from(receiver.bytes).equals(pattern(0, written))).toBe(true);
      },
    ),
    { numRuns: 50 },
  );
});

/** Bytes that differ from their neighbours for a long way. */
function pattern(start: number, length: number): Buffer {
  return Buffer.from(Uint8Array.from({ length }, (_, at) => ((start + at) * 31 + ((start + at) >> 8)) & 255));
}

describe("a writer with offsets", () => {
  const opened = (): { stdin: Stdin; receiver: Receiver; deliver: () => void } => {
    const receiver = new Receiver(1_000);
    const stdin = new Stdin("run_1");
    const link = receiver.connect();
    stdin.attach(link, receiver.credit);
    const deliver = (): void => {
      link.deliver();
      stdin.credit(receiver.credit);
    };
    return { stdin, receiver, deliver };
  };

  test("may repeat bytes: none is used twice", async () => {
    const { stdin, receiver, deliver } = opened();
    const first = stdin.write("abc", 0);
    const again = stdin.write("abcde", 0);
    deliver();
    await Promise.all([first, again, stdin.write("bc", 1)]);
    expect({ bytes: Buffer.from(receiver.bytes).toString(), accepted: stdin.accepted }).toEqual({
      bytes: "abcde",
      accepted: 5,
    });
  });

  test("may not leave a gap", async () => {
    const { stdin, receiver, deliver } = opened();
    await expect(stdin.write("x", 1)).rejects.toMatchObject({ code: "BAD_INPUT" });
    deliver();
    expect(receiver.bytes).toEqual([]);
  });

  test("may repeat bytes after the close, but not add any", async () => {
    const { stdin, deliver } = opened();
    const written = stdin.write("abc", 0);
    const closed = stdin.close();
    const repeated = stdin.write("bc", 1);
    await expect(stdin.write("cd", 2)).rejects.toBeInstanceOf(StdinClosed);
    deliver();
    await Promise.all([written, closed, repeated]);
  });
});
