import { expect, test } from "vitest";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";

const fixture = gatewayForFile();
const soak = process.env["HOLDFAST_SOAK"] === "1";
const CLIENTS = 5;
const EACH = soak ? 200 : 60;

test(`${CLIENTS * EACH} runs from ${CLIENTS} clients at once all end with their exit code, and none is lost`, async () => {
  const failed: string[] = [];
  const runIds = await Promise.all(
    Array.from({ length: CLIENTS }, async (_, who) => {
      const client = fixture.as(fixture.token);
      const mine: string[] = [];
      for (let each = 0; each < EACH; each++) {
        const code = (who * EACH + each) % 256;
        const word = `${who}-${each}`;
        const argv = ["/bin/sh", "-c", `echo ${word}; exit ${code}`];
        const { run, output } = await client.exec({
          body: { argv, labels: { who: String(who) }, yieldMs: 120_000 },
        });
        const right =
          run.state === "exited" &&
          run.exit?.code === code &&
          run.emptiness === "proven" &&
          output[0]?.text === `${word}\n`;
        if (!right) failed.push(`${word}: ${JSON.stringify(run.exit)} ${JSON.stringify(output)}`);
        mine.push(run.runId);
      }
      return mine;
    }),
  );
  expect(failed).toEqual([]);
  expect(new Set(runIds.flat()).size).toBe(CLIENTS * EACH);
  const { runs } = await fixture.client.listRuns({ query: { all: "1", limit: 1_000 } });
  expect(runs.filter(({ labels }) => labels["who"] !== undefined)).toHaveLength(CLIENTS * EACH);
  expect((await fixture.client.status()).runs).toBe(0);
});
