import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { processState } from "../../support/supervisor/silent-anchor.js";
import { openScriptedSession } from "../../support/agents/scripted-agent.js";
import { COMMAND_USES, type SampleNames } from "../../cli/command-table.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { waitFor } from "../../support/wait-for.js";

/** Instead of 5 s. */
const ANSWER_MS = 1_000;
/** Twice the wait for an answer, plus the time of a command on a loaded machine. */
const BOUND_MS = 2 * ANSWER_MS + 30_000;
/** Most of each command is waiting. */
const AT_ONCE = 6;

/** Commands about state that only a gateway has: they report that it does not answer. */
const NEED_A_GATEWAY = ["approvals list", "gateway status"];

let gatewayFixture: BackgroundGateway;
let names: SampleNames;
let token: string;
let pid: number;

beforeAll(async () => {
  gatewayFixture = await BackgroundGateway.started();
  const records = join(gatewayFixture.home, "records.json");
  await writeFile(records, JSON.stringify([{ pid: 4_000_000, command: "true", wrapperRoot: "/opt/x" }]));
  await writeFile(
    join(gatewayFixture.home, "config.toml"),
    '[[foreign]]\nname = "tool"\nmarker = "SOME_TOOL_ID"\n',
  );
  const client = await gatewayFixture.client();
  ({ token } = await client.openSession({ body: { key: "k" } }));
  await client.sendMessage({ params: { id: "k" }, body: { text: "one" } });
  const ended = await gatewayFixture.startRun({ argv: ["printf", "one\ntwo\n"], pty: true });
  await gatewayFixture.waitForEnd(ended);
  const open = await gatewayFixture.startBash();
  const { root } = await gatewayFixture.record(open);
  const closed = await openScriptedSession(gatewayFixture, "spoken");
  await client.acpPrompt({ params: { id: closed }, body: { text: "hello" } });
  await client.acpClose({ params: { id: closed } });
  names = { session: "k", ended, open, pid: root?.pid ?? 0, records, closed };
  ({ pid } = await gatewayFixture.status());
  process.kill(pid, "SIGSTOP");
  await waitFor("it is stopped", () => processState(pid) === "T");
});
afterAll(async () => {
  process.kill(pid, "SIGCONT");
  await gatewayFixture[Symbol.asyncDispose]();
});

const readers = Object.entries(COMMAND_USES).flatMap(([path, looks]) =>
  looks === "acts" ? [] : [{ path, looks }],
);

describe("a gateway that is stopped", () => {
  test("does not block a reading command: it reads without the gateway, or reports that it does not answer", async () => {
    const env = { HOLDFAST_CONFIG: join(gatewayFixture.home, "config.toml") };
    const failed: object[] = [];
    const waiting = readers.map(({ path, looks }) => ({ path, words: looks(names)[0] ?? [] }));
    const work = async (): Promise<void> => {
      await using lane = new BatchCli(gatewayFixture.env, { gatewayAnswerMs: ANSWER_MS });
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const { path, words } = next;
        const began = performance.now();
        const { code, stdout, stderr } = await lane.holdfastWith(env, ...path.split(" "), ...words);
        const tookMs = performance.now() - began;
        const needs = NEED_A_GATEWAY.includes(path);
        const may = needs ? [3, 125] : ["doctor", "tasks audit"].includes(path) ? [0, 1] : [0];
        const well = may.includes(code ?? -1) && tookMs < BOUND_MS;
        if (!well || (needs && !stderr.includes(`pid ${pid}`)))
          failed.push({ path, code, stdout, stderr, tookMs });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    expect(failed).toEqual([]);
  }, 300_000);

  test("makes every command of a session fail: nothing is stopped or shown", async () => {
    const asSession = async (...words: readonly string[]) => {
      const { child, finished } = gatewayFixture.startWith({ HOLDFAST_TOKEN: token }, ...words);
      child.stdin.end();
      return finished;
    };
    const [kill, list] = await Promise.all([
      asSession("process", "kill", names.open),
      asSession("process", "list"),
    ]);
    expect(kill.stderr).toMatch(/did not answer within 5 s, and a session has no other way to stop anything/);
    expect(list.stderr).toMatch(
      /did not answer within 5 s, and only a gateway knows what this session may see/,
    );
    expect([kill.code, list.code]).toEqual([125, 125]);
    expect(await gatewayFixture.membersOf(names.open)).not.toEqual([]);
  });

  test("is not replaced by a command that acts: the command reports that it does not answer", async () => {
    const { code, stderr } = await gatewayFixture.holdfast("run", "-d", "--", "true");
    expect(stderr).toContain(`(pid ${pid}) does not answer`);
    expect(code).toBe(125);
  });
});
