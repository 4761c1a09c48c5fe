import { expect, test } from "vitest";
import { CliFixture, waitForText } from "../../support/cli/cli-fixture.js";

const SERVER = ["sh", "-c", "sleep 3600 & echo up; cat >/dev/null; kill $!"];

test("mcp list shows the wrapped servers by name with their clients, processes and memory, and no other run", async () => {
  await using fixture = await CliFixture.open();
  const start = async (...options: readonly string[]): Promise<() => Promise<unknown>> => {
    const { child, finished } = fixture.start("run", ...options, "--", ...SERVER);
    await waitForText(child.stdout, "up\n");
    return () => {
      child.stdin.end();
      return finished;
    };
  };
  expect(await fixture.holdfast("mcp", "list")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "holdfast: no wrapped server runs; `holdfast mcp wrap` shows which servers can be wrapped\n",
  });
  const endOther = await start("--label", "team=x");
  const endMemory = await start("--label", "mcp=memory", "--label", "mcp-client=claude");
  const endFiles = await start("--label", "mcp=files", "--label", "mcp-client=codex");

  const { code, stdout, stderr } = await fixture.holdfast("mcp", "list");
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split("\n");
  expect(lines[0]).toMatch(/^SERVER +CLIENT +RUN +STATUS +TIME +CPU +MEMORY +PROCS +PID +COMMAND$/);
  expect(lines[1]).toMatch(/^files +codex +run_\w+ +running .* 3 +sh -c/);
  expect(lines[5]).toMatch(/^memory +claude +run_\w+ +running .* 3 +sh -c/);
  expect(lines.filter((line) => line.includes("├─ sleep"))).toHaveLength(2);
  expect(stdout.match(/run_/g)).toHaveLength(2);
  expect(stderr).toMatch(/^holdfast: 2 servers, 6 processes, \d+(?:\.\d)? [KM]iB\n$/);

  const json = JSON.parse((await fixture.holdfast("mcp", "list", "--json")).stdout) as unknown;
  expect(json).toMatchObject([
    { labels: { mcp: "files", "mcp-client": "codex" }, processes: [{}, {}, {}] },
    { labels: { mcp: "memory" } },
  ]);

  await endFiles();
  await endMemory();
  expect((await fixture.holdfast("mcp", "list")).stdout).toBe("");
  // Each start stays visible.
  expect((await fixture.holdfast("mcp", "list", "--all")).stdout).toMatch(/files .*\n(?:.*\n)*memory /);
  await endOther();
});
