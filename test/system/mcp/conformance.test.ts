import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { conformanceCommand } from "../../../scripts/test-programs/mcp-conformance.mjs";
import { parseConfig } from "../../../src/config/schema.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { openFixtureProxy } from "../../support/mcp/fixture-proxy.js";

const command = conformanceCommand();
const fixture = gatewayForFile({ config: parseConfig('[gateway]\nlisten = "127.0.0.1:0"', "c.toml") });

/** Scenarios and single checks that do not apply, as docs/reference/mcp.md lists them with their reasons. */
async function documented(): Promise<ReadonlySet<string>> {
  const page = await readFile("docs/reference/mcp.md", "utf8");
  const section = page.slice(page.indexOf("## Conformance"));
  const rows = section.split("\n").filter((line) => line.startsWith("| `"));
  const names = rows.map((row) => row.split("|")[1] ?? "").join(" ");
  return new Set([...names.matchAll(/`([\w/-]+)`/g)].map(([, name = ""]) => name));
}

const printed = { text: "This is the content of the static text resource.", template: "123" };

interface Check {
  readonly id: string;
  readonly status: string;
  readonly errorMessage?: string;
}

/** The scenarios and checks that failed. */
const seen = new Set<string>();

/** The failed checks of a requirement set. */
async function failures(revision: string): Promise<readonly { scenario: string; check: Check }[]> {
  const { token } = await fixture.client.openSession({
    body: { key: `conformance-${revision}`, execRules: [{ effect: "allow" }] },
  });
  const session = fixture.as(token);
  const logOf = async (text: string): Promise<string> => {
    const { run } = await session.exec({ body: { argv: ["echo", text] } });
    return `holdfast://runs/${run.runId}/log`;
  };
  const { listen } = await fixture.client.status();
  await using proxy = await openFixtureProxy({
    ...{ listen: listen ?? "", token },
    tools: {
      greet: ({ name }) => ({ command: 'echo "Hello, $WHO!"', env: [`WHO=${String(name)}`] }),
      slow_compute: ({ seconds }) => ({
        command: `sleep ${Number(seconds)}; echo computed`,
        background: seconds !== 0,
      }),
      failing_job: () => ({ command: "sleep 1; echo failed >&2; exit 1", background: true }),
      protocol_error_job: () => ({ command: "sleep 300", background: true }),
      confirm_delete: () => ({ command: "sleep 0.2", background: true }),
      test_simple_text: () => ({ command: "echo 'This is a simple text response for testing.'" }),
      test_error_handling: () => ({
        command: "echo 'This tool intentionally returns an error for testing'; exit 1",
      }),
      test_tool_with_progress: () => ({ command: "for part in 0 50 100; do echo $part; sleep 1.2; done" }),
    },
    resources: {
      "test://static-text": await logOf(printed.text),
      "test://template/123/data": await logOf(printed.template),
      "test://watched-resource": await logOf("watched"),
    },
    // The work of this fixture breaks in a way that leaves no result: its anchor is killed.
    onAnswer: (tool, text) => {
      const [runId] = /run_\w{12}/.exec(text) ?? [];
      if (tool === "protocol_error_job" && runId !== undefined) void killAnchor(runId);
    },
  });
  const out = await mkdtemp(join(tmpdir(), "hf-"));
  const [node = "", script = ""] = command ?? [];
  const child = spawn(node, [script, "server", "--url", proxy.url, "--requirements", revision, "-o", out], {
    ...{ stdio: "ignore", cwd: out },
  });
  await once(child, "exit");
  const found: { scenario: string; check: Check }[] = [];
  const directories = (await readdir(out)).filter((name) => name.startsWith("server-"));
  for (const directory of directories) {
    const scenario = directory.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT.*$/, "");
    const checks = JSON.parse(await readFile(join(out, directory, "checks.json"), "utf8")) as Check[];
    for (const check of checks) if (check.status === "FAILURE") found.push({ scenario, check });
  }
  expect(directories.length).toBeGreaterThan(25);
  if (revision === "2026-07-28") expect(directories.join(" ")).toContain("server-tasks-lifecycle");
  return found;
}

async function killAnchor(runId: string): Promise<void> {
  const { anchor } = await fixture.client.getRun({ params: { runId } });
  if (anchor !== null) process.kill(anchor.pid, "SIGKILL");
}

test.skipIf(command === null).each(["2025-11-25", "2026-07-28"])(
  "every scenario of %s that applies to this server passes, those of tasks included",
  { timeout: 600_000 },
  async (revision) => {
    const excused = await documented();
    const failed = await failures(revision);
    const unexpected = failed.filter(
      ({ scenario, check: { id } }) => !excused.has(scenario) && !excused.has(id),
    );
    expect(unexpected).toEqual([]);
    for (const { scenario, check } of failed) seen.add(scenario).add(check.id);
  },
);

test.skipIf(command === null)("the page excuses no scenario that passes", async () => {
  expect([...(await documented())].filter((name) => !seen.has(name))).toEqual([]);
});
