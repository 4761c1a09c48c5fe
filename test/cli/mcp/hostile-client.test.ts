import { once } from "node:events";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { CliFixture } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

interface Message {
  readonly id: number | string | null;
  readonly result?: { readonly isError?: boolean; readonly content?: { readonly text: string }[] };
  readonly error?: { readonly code: number; readonly message: string };
}

const CALLS = 10_000;

test(
  "rubbish, escapes, huge arguments and 10,000 calls at once are answered, with bounded memory",
  { timeout: 600_000 },
  async () => {
    await using fixture = await CliFixture.open();
    const { child, finished } = fixture.start("mcp", "--allow", "*");
    const answers = new Map<number | string, Message>();
    let withoutId = 0;
    createInterface({ input: child.stdout }).on("line", (line) => {
      const message = JSON.parse(line) as Message;
      if (message.id === null) withoutId += 1;
      else if (message.id !== undefined) answers.set(message.id, message);
    });
    const write = async (text: string): Promise<void> => {
      if (!child.stdin.write(text)) await once(child.stdin, "drain");
    };
    const send = (id: number | string, method: string, params: object): Promise<void> =>
      write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    const clientInfo = { name: "hostile\u001b]0;x\u0007", version: "1" };
    await send("init", "initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo });
    await waitFor("it is initialized", () => answers.has("init"));

    await write("rubbish\n{}\n[]\n\u0000\n");
    await write(`${"x".repeat(8 * 1024 * 1024)}\n`);
    await send("escape", "tools/call", { name: "\u001b[2Jexec", arguments: {} });
    await send("types", "tools/call", { name: "exec", arguments: [1, 2, 3] });
    await send("huge", "tools/call", { name: "exec", arguments: { command: "x".repeat(3 * 1024 * 1024) } });
    await send("many", "tools/call", {
      name: "exec",
      arguments: { argv: Array.from({ length: 20_000 }, () => "y") },
    });
    await send("proto", "tools/call", {
      name: "exec",
      arguments: JSON.parse('{"__proto__": {"command": "true"}}') as object,
    });
    for (let id = 0; id < CALLS; id++)
      await send(id, "tools/call", { name: "process", arguments: { action: "list" } });
    await waitFor("all are answered", () => answers.size === CALLS + 6 && withoutId === 5, 500_000);

    expect(answers.get("escape")?.error?.message).not.toContain("\u001b");
    for (const id of ["types", "huge", "many", "proto"])
      expect(answers.get(id)?.result, id).toMatchObject({ isError: true });
    const peakKb = Number(/VmHWM:\s+(\d+)/.exec(await readStatus(child.pid ?? 0))?.[1] ?? 0);
    expect(peakKb).toBeLessThan(600 * 1024);
    const failed = Array.from({ length: CALLS }, (_, id) => answers.get(id)).filter(
      (each) => each?.result?.isError === true,
    );
    expect(failed.length, failed[0]?.result?.content?.[0]?.text).toBeLessThan(CALLS);
    child.stdin.end();
    expect((await finished).code).toBe(0);
    await fixture.holdfast("gateway", "stop", "--runs", "terminate");
  },
);

async function readStatus(pid: number): Promise<string> {
  const { readFile } = await import("node:fs/promises");
  return readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
}
