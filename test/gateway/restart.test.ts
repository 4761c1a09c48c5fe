import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { GatewayClient } from "../../src/api/client.js";
import { startGateway } from "../../src/gateway/start-in-background.js";
import { reachGateway } from "../../src/gateway/locate-gateway.js";
import { removeStateDirectory } from "../support/temporary-directory.js";
import { waitUntilStopped } from "../support/gateway/gateway-process.js";

const main = join(process.cwd(), "dist/cli/main.js");
const RUNS = process.env["HOLDFAST_SOAK"] === "1" ? 200 : 40;
const LINES = 60;

/** Counts, a line at a time, for long enough to be killed in the midst of it; its exit code is its own. */
const counting = (code: number): string =>
  `i=0; while [ $i -lt ${LINES} ]; do i=$((i+1)); echo "line $i"; sleep 0.05; done; exit ${code}`;

async function gateway(home: string): Promise<{ readonly client: GatewayClient; readonly pid: number }> {
  await startGateway(home, main);
  const reached = (await reachGateway(home)) ?? expect.fail("it does not answer");
  return { client: reached.client, pid: reached.status.pid };
}

test(
  `a gateway killed under ${RUNS} live runs: all continue under the next, no byte is lost, every exit code is correct`,
  { timeout: 120_000 },
  async () => {
    const home = await mkdtemp(join(tmpdir(), "hf-"));
    onTestFinished(() => removeStateDirectory(home));
    const bystander: ChildProcess = spawn("sleep", ["3600"], { stdio: "ignore" });
    onTestFinished(() => void bystander.kill("SIGKILL"));
    const first = await gateway(home);
    const started = await Promise.all(
      Array.from({ length: RUNS }, (_, n) =>
        first.client.exec({ body: { argv: ["sh", "-c", counting(n % 100)], background: true, maxChars: 0 } }),
      ),
    );
    // oxlint-disable-next-line no-restricted-properties -- the gateway this test started, asked for its own number
    process.kill(first.pid, "SIGKILL");
    const second = await gateway(home);
    expect(second.pid).not.toBe(first.pid);
    onTestFinished(async () => {
      await second.client.stop({ body: { runs: "terminate" } }).catch(() => undefined);
      await waitUntilStopped(home);
    });
    const whole = Array.from({ length: LINES }, (_, n) => `line ${n + 1}\n`).join("");
    await Promise.all(
      started.map(async ({ run: { runId } }, n) => {
        let record = await second.client.getRun({ params: { runId } });
        for (let stdout = 0; record.state !== "exited";) {
          const query = { stdout, waitMs: 5_000, maxChars: 100 };
          const news = await second.client.poll({ params: { runId }, query });
          record = news.run;
          stdout = news.output[0]?.nextOffset ?? 0;
        }
        expect(record).toMatchObject({
          emptiness: "proven",
          exit: n % 100 === 0 ? { reason: "exit", code: 0 } : { reason: "exit", code: n % 100 },
        });
        const { text, skipped } = await second.client.log({ params: { runId }, query: { offset: 0 } });
        expect({ text, skipped }).toEqual({ text: whole, skipped: 0 });
      }),
    );
    expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
  },
);
