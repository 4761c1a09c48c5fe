import { spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { waitForRunEnd, gatewayForFile } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const gatewayFixture = gatewayForFile();
const editor = ["vim", "vim.tiny", "vi"].find((name) => !missing(name)) ?? "vi";

test.skipIf(missing("vim", "vim.tiny", "vi"))(
  "vi over the API: keys, a paste, the screen, a resize",
  async () => {
    const path = join(gatewayFixture.home, "text");
    await writeFile(path, "one\ntwo\nthree\n");
    const vi = await open([editor, "-u", "NONE", "-i", "NONE", "-N", "-n", path]);
    await vi.shows(/^three$/m);
    await vi.keys("Down", "Down", "Up", "A", "literal: and a half", "Escape");
    await vi.shows("two and a half");
    await vi.keys("G", "o");
    await gatewayFixture.client.paste({ params: vi.params, body: { text: "pasted\ntext" } });
    await vi.shows(/pasted\ntext/);
    await vi.keys("Left", "Left", "literal:_", "Escape");
    await vi.shows("te_xt");
    await gatewayFixture.client.resize({ params: vi.params, body: { rows: 10, cols: 40 } });
    await waitFor("it draws ten rows", async () => (await vi.rows()).at(-2)?.startsWith("~") === true);
    expect(await vi.rows()).toHaveLength(10);
    await vi.keys("literal::wq", "Enter");
    expect((await waitForRunEnd(gatewayFixture.client, vi.params.runId)).exit).toMatchObject({ code: 0 });
    expect(await readFile(path, "utf8")).toBe("one\ntwo and a half\nthree\npasted\nte_xt\n");
  },
);

test.skipIf(missing("less"))("less over the API: pages, searches, and gives the screen back", async () => {
  const path = join(gatewayFixture.home, "lines");
  await writeFile(path, Array.from({ length: 300 }, (_, line) => `line ${line + 1} of many\n`).join(""));
  const less = await open(["less", path], { LESS: "", LESSHISTFILE: "-" });
  await less.shows("line 23 of many");
  await less.keys("PageDown");
  await less.shows("line 46 of many");
  await less.keys("Home", "/", "literal:line 150 ", "Enter");
  await less.shows(/^line 150 of many/m);
  await less.keys("q");
  expect((await waitForRunEnd(gatewayFixture.client, less.params.runId)).exit).toMatchObject({ code: 0 });
});

test.skipIf(missing("top"))("top over the API: shows processes, hears keys and leaves", async () => {
  const top = await open(["top", "-d", "1"]);
  await top.shows(/PID\s+USER/);
  await top.keys("h");
  await top.shows(/Help for Interactive Commands/i);
  await top.keys("q");
  await top.shows(/PID\s+USER/);
  await top.keys("q");
  expect((await waitForRunEnd(gatewayFixture.client, top.params.runId)).exit).toMatchObject({ code: 0 });
});

test("a REPL over the API: evaluates, recalls, completes, and seems to wait", async () => {
  const repl = await open([process.execPath], { NODE_REPL_HISTORY: "", NO_COLOR: "1" });
  await repl.shows(/^> ?$/m);
  await waitFor("it seems to wait for input", async () => {
    const { waitingForInput } = await gatewayFixture.client.poll({ params: repl.params });
    return waitingForInput.seems;
  });
  await gatewayFixture.client.paste({ params: repl.params, body: { text: "'a'.repeat(5)", submit: true } });
  await repl.shows("'aaaaa'");
  await repl.keys("Up");
  await repl.shows(/repeat\(5\)$[^>]*> 'a'.repeat\(5\)/m);
  await repl.keys("C-u", "literal:globalThis.setTimeo", "Tab");
  await repl.shows("globalThis.setTimeout");
  await repl.keys("C-u", "C-d");
  expect((await waitForRunEnd(gatewayFixture.client, repl.params.runId)).exit).toMatchObject({ code: 0 });
});

interface Shown {
  readonly params: { readonly runId: string };
  keys(...keys: string[]): Promise<void>;
  rows(): Promise<readonly string[]>;
  shows(what: string | RegExp): Promise<void>;
}

async function open(argv: string[], env: Record<string, string> = {}): Promise<Shown> {
  const { run: params } = await gatewayFixture.client.exec({
    body: { argv, pty: true, background: true, env: { TERM: "xterm", ...env } },
  });
  const rows = async (): Promise<readonly string[]> => (await gatewayFixture.client.screen({ params })).rows;
  return {
    params,
    rows,
    async keys(...keys) {
      await gatewayFixture.client.sendKeys({ params, body: { keys } });
    },
    async shows(what) {
      let seen = "";
      const shown = async (): Promise<boolean> => {
        seen = (await rows()).join("\n");
        return typeof what === "string" ? seen.includes(what) : what.test(seen);
      };
      await waitFor(`${what} is shown`, shown).catch((cause: unknown) => {
        throw new Error(`it shows\n${seen}`, { cause });
      });
    },
  };
}

function missing(...names: readonly string[]): boolean {
  return names.every((name) => spawnSync("sh", ["-c", 'command -v "$0"', name]).status !== 0);
}
