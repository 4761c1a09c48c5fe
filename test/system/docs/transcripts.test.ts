import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { cliPath } from "../../support/cli/cli-fixture.js";
import { codeBlocks, pages, type CodeBlock } from "./pages.js";
import {
  matchesPage,
  parseTranscript,
  findIds,
  TranscriptShell,
  formatTranscript,
  type TranscriptEntry,
} from "./transcript.js";

/** Set to have the pages rewritten with what is printed today; then read the difference. */
const rewriting = process.env["HOLDFAST_WRITE_TRANSCRIPTS"] === "1";

const transcripts = pages
  .map((page) => ({ page, blocks: codeBlocks(page).filter(({ language }) => language === "console") }))
  .filter(({ blocks }) => blocks.length > 0);

test("there are transcripts", () => expect(transcripts.map(({ page }) => page)).toContain("README.md"));

describe.each(transcripts)("$page", ({ page, blocks }) => {
  test("shows what the program prints", { timeout: 180_000 }, async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    await using project = await Project.open();
    const shell = project.shell(gatewayFixture);
    const today: [CodeBlock, TranscriptEntry[]][] = [];
    const named = new Map<string, string>();
    for (const block of blocks) {
      const entries: TranscriptEntry[] = [];
      for (const { command, output } of parseTranscript(block.text)) {
        const printed = tidy(
          await shell.run(withNames(command, named)),
          gatewayFixture.home,
          project.directory,
        );
        if (!rewriting)
          expect(
            matchesPage(output, printed),
            `${page}:${block.line}: ${command}\nis said to print\n${output}but prints\n${printed}`,
          ).toBe(true);
        const ids = findIds(printed);
        const whole = !/^…$/m.test(output);
        for (const [index, id] of findIds(output).entries()) {
          const meant = named.get(id) ?? ids[index] ?? id;
          const other = [...named].find(([name, of]) => of === meant && name !== id);
          if (!rewriting && whole)
            expect([ids[index], other], `${page}: ${id} after ${command}`).toEqual([meant, undefined]);
          named.set(id, meant);
        }
        entries.push({ command, output: matchesPage(output, printed) ? output : printed });
      }
      today.push([block, entries]);
    }
    shell.end();
    if (rewriting) await rewrite(page, today);
  });
});

/** The project of the pages: it has tests, a server and an agent. */
class Project implements AsyncDisposable {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  static async open(): Promise<Project> {
    const directory = await mkdtemp(join(tmpdir(), "hf-"));
    const holdfast = join(directory, "bin", "holdfast");
    await mkdir(dirname(holdfast));
    await writeFile(holdfast, `#!/bin/sh\nexec "${process.execPath}" "${cliPath}" "$@"\n`, { mode: 0o755 });
    await writeFile(join(directory, "package.json"), JSON.stringify(PROJECT));
    await writeFile(join(directory, "server.js"), SERVER);
    await copyFile(AGENT, join(directory, "agent.mjs"));
    return new Project(directory);
  }

  shell({ env }: BackgroundGateway): TranscriptShell {
    const PATH = `${join(this.directory, "bin")}:${env["PATH"]}`;
    return new TranscriptShell(
      { ...env, PATH, HOLDFAST_IN_PROCESS: undefined, npm_config_loglevel: "error" },
      this.directory,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true });
  }
}

const PROJECT = {
  private: true,
  scripts: { test: "echo 12 tests passed", dev: "node server.js" },
};

const AGENT = fileURLToPath(new URL("agent.mjs", import.meta.url));

const SERVER = `
  const server = require("node:http").createServer((_, answer) => answer.end("hello\\n"));
  server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => console.log("listening"));
`;

function tidy(printed: string, home: string, project: string): string {
  return printed.replaceAll(home, "~/.local/state/holdfast").replaceAll(project, "/home/ada/site");
}

/** The pages' ids are those of another day. */
function withNames(command: string, named: ReadonlyMap<string, string>): string {
  return findIds(command).reduce((soFar, id) => soFar.replaceAll(id, named.get(id) ?? id), command);
}

async function rewrite(
  page: string,
  today: readonly (readonly [CodeBlock, readonly TranscriptEntry[]])[],
): Promise<void> {
  let text = await readFile(page, "utf8");
  for (const [block, entries] of today) text = text.replace(block.text, () => formatTranscript(entries));
  await writeFile(page, text);
}

test.each([
  ["run_4k2m9xq1 ended after 1.2s\n", "run_aaaa1111 ended after 300ms\n", true],
  ["holdfast: gone\n", "holdfast: survivors: sleep\n", false],
  ["RUN   STATUS\n…\n", "RUN  STATUS\nrun_aaaa1111  running\nrun_bbbb1111  exited\n", true],
  ["RUN  STATUS\n", "RUN  STATUS\nrun_aaaa1111  running\n", false],
  ["exit 120\n", "exit 0\n", false],
])("%j agrees with %j: %j", (page, printed, whether) => {
  expect(matchesPage(page, printed)).toBe(whether);
});
