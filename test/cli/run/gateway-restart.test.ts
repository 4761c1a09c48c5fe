import { createHash, randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNoTerminal } from "../../support/cli/recovery-fixture.js";
import { ForegroundFixture, LONG_TIMEOUT } from "../../support/cli/foreground-fixture.js";
import { repetitions } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

const hash = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

/** Without the notices of the client, which are not output of the command. */
function withoutNotes(bytes: Buffer): Buffer {
  const text = bytes
    .toString("latin1")
    .replaceAll(/holdfast: the gateway (is gone|was stopped)[^\n]*\n/g, "");
  return Buffer.from(text, "latin1");
}

test(
  "a gateway that is restarted twice under a foreground run loses and repeats no byte",
  LONG_TIMEOUT,
  async () => {
    await using fixture = await ForegroundFixture.started();
    const sent = randomBytes(repetitions(2, 6) * 1024 * 1024);
    const script = "tee /dev/stderr; exit 6";
    const { child, raw, finished } = fixture.start("run", "--buffer", "256K", "--", "sh", "-c", script);
    let received = 0;
    child.stdout.on("data", (data: Buffer) => (received += data.length));
    child.stdin.end(sent);
    for (const part of [1 / 4, 1 / 2]) {
      await waitFor("a part has arrived", () => received > part * sent.length, 60_000);
      expect((await fixture.holdfast("gateway", "restart")).code).toBe(0);
    }
    const [stdout, stderr] = await raw;
    expect([stdout, withoutNotes(stderr)].map(hash)).toEqual([hash(sent), hash(sent)]);
    expect((await finished).code).toBe(6);
  },
);

describe.skipIf(whyNoTerminal !== null)("at a terminal", LONG_TIMEOUT, () => {
  let fixture: ForegroundFixture;
  beforeAll(async () => {
    fixture = await ForegroundFixture.started();
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  test.each([
    ["Ctrl-C cancels the command with --no-pty", ["--no-pty"], 130],
    ["Ctrl-C is a key for the command with --pty", ["--pty"], 9],
  ] as const)("%s, also under a second gateway", async (_, options, code) => {
    const script =
      'trap "echo caught; exit 9" INT TERM; echo up; read line; echo "got $line"; while :; do sleep 0.05; done';
    const ended = fixture.atTerminal(
      ["run", ...options, "--", "sh", "-c", script],
      ["up", ""],
      ["the gateway is gone", "hello\n"],
      ["got hello", "\u0003"],
    );
    const client = await fixture.client();
    await waitFor("the run has started", async () => (await client.listRuns()).runs[0]?.state === "running");
    await waitFor("the command has written", async () => {
      const { runs } = await client.listRuns();
      const runId = runs[0]?.runId ?? "";
      return (await client.poll({ params: { runId } })).output.some(({ nextOffset }) => nextOffset > 0);
    });
    await fixture.killGateway();
    const shown = await ended;
    expect(shown.code).toBe(code);
    expect(shown.stdout).toContain("caught");
  });
});
