import fc from "fast-check";
import { expect, test } from "vitest";
import { AcpFrameWriter, type OutgoingFrame } from "../../../src/acp/wire/frames.js";
import { deferred } from "../../../src/async/deferred.js";
import { flushPending } from "./connection-fixture.js";

/** An agent's stdin: what it takes of each write before the writer dies. */
class Pipe {
  bytes = Buffer.alloc(0);
  kept: OutgoingFrame | null = null;

  outgoing(takes = Infinity): AcpFrameWriter {
    return new AcpFrameWriter(
      (written) => {
        const room = Math.min(written.length, takes - this.bytes.length);
        this.bytes = Buffer.concat([this.bytes, written.subarray(0, Math.max(0, room))]);
        return room >= written.length ? Promise.resolve() : new Promise(() => undefined);
      },
      this.bytes.length,
      this.kept,
    );
  }

  async send(outgoing: AcpFrameWriter, message: object): Promise<void> {
    await outgoing.send(message, async (frame) => {
      this.kept = frame;
    });
  }
}

test("after a crash at any point the next writer continues, and every frame arrives once", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.string({ unit: "grapheme" }), { minLength: 1, maxLength: 4 }),
      fc.nat({ max: 200 }),
      async (texts, diesAt) => {
        const pipe = new Pipe();
        const first = pipe.outgoing(diesAt);
        for (const text of texts) void pipe.send(first, { text });
        await flushPending();
        const second = pipe.outgoing();
        await pipe.send(second, { text: "next" });
        const said = pipe.bytes
          .toString()
          .split("\n")
          .slice(0, -1)
          .map((line) => (JSON.parse(line) as { text: string }).text);
        // Later frames were never stored, so their callers know that they were not sent.
        expect(said.slice(0, -1)).toEqual(texts.slice(0, said.length - 1));
        expect(said.at(-1)).toBe("next");
      },
    ),
    { numRuns: 60 },
  );
});

test("a frame is written after it is stored, and after the frame before it", async () => {
  const order: string[] = [];
  const gates = [deferred<void>(), deferred<void>()];
  const outgoing = new AcpFrameWriter(async (bytes) => void order.push(`write ${bytes.length}`), 100);
  const sent = gates.map((gate, index) =>
    outgoing.send({ index }, async ({ at }) => {
      order.push(`keep at ${at}`);
      await gate.promise;
    }),
  );
  await flushPending();
  gates[1]?.resolve();
  await flushPending();
  expect(order).toEqual(["keep at 100"]);
  gates[0]?.resolve();
  await Promise.all(sent);
  expect(order).toEqual(["keep at 100", "write 28", "keep at 128", "write 28"]);
});

test("a failed write does not block the next", async () => {
  let broken = true;
  const outgoing = new AcpFrameWriter(() =>
    broken ? Promise.reject(new Error("not now")) : Promise.resolve(),
  );
  const keep = async (): Promise<void> => undefined;
  await expect(outgoing.send({}, keep)).rejects.toThrow("not now");
  await expect(outgoing.send({ big: 1n }, keep)).rejects.toThrow(/BigInt/);
  broken = false;
  await outgoing.send({}, keep);
});
