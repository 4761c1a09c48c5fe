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

/** Set to 1 to rewrite the pages with the current output. Review the difference before committing it. */
const rewriting = process.env["HOLDFAST_WRITE_TRANSCRIPTS"] === "1";

const transcripts = pages
  .map((page) => ({ page, blocks: codeBlocks(page).filter(({ language }) => language === "console") }))
  .filter(({ blocks }) => blocks.length > 0);

test("the README has a console block", () =>
  expect(transcripts.map(({ page }) => page)).toContain("README.md"));

describe.each(transcripts)("$page", ({ page, blocks }) => {
  test("shows the output of its commands", { timeout: 180_000 }, async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    await using project = await Project.open();
    const shell = project.shell(gatewayFixture);
    const rewritten: [CodeBlock, TranscriptEntry[]][] = [];
    const named = new Map<string, string>();
    for (const block of blocks) {
      const entries: TranscriptEntry[] = [];
      for (const { command, output } of parseTranscript(block.text)) {
        const printed = tidy(
          await shell.run(replaceIds(command, named)),
          gatewayFixture.home,
          project.directory,
        );
        if (!rewriting)
          expect(
            matchesPage(output, printed),
            `${page}:${block.line}: ${command}\nshould print\n${output}but prints\n${printed}`,
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
      rewritten.push([block, entries]);
    }
    shell.end();
    if (rewriting) await rewrite(page, rewritten);
  });
});

/** The project directory of the console blocks, with tests, a server and an agent. */
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
    await copyFile(SETTABLE_AGENT, join(directory, "settable-agent.mjs"));
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
const SETTABLE_AGENT = fileURLToPath(
  new URL("../../support/agents/programs/settable-agent.mjs", import.meta.url),
);

const SERVER = `
  const server = require("node:http").createServer((_, answer) => answer.end("hello\\n"));
  server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => console.log("listening"));
`;

/** Other tests have runs without a state directory meanwhile, which every command reports. */
function tidy(printed: string, home: string, project: string): string {
  return printed
    .replaceAll(/^holdfast: without a state directory: .*\n/gm, "")
    .replaceAll(home, "~/.local/state/holdfast")
    .replaceAll(project, "/home/ada/site");
}

/** Replaces the ids of the page by those of this run. */
function replaceIds(command: string, named: ReadonlyMap<string, string>): string {
  return findIds(command).reduce((text, id) => text.replaceAll(id, named.get(id) ?? id), command);
}

async function rewrite(
  page: string,
  rewritten: readonly (readonly [CodeBlock, readonly TranscriptEntry[]])[],
): Promise<void> {
  let text = await readFile(page, "utf8");
  for (const [block, entries] of rewritten) text = text.replace(block.text, () => formatTranscript(entries));
  await writeFile(page, text);
}

test.each([
  ["run_4k2m9xq1 ended after 1.2s\n", "run_aaaa1111 ended after 300ms\n", true],
  ["holdfast: gone\n", "holdfast: survivors: sleep\n", false],
  ["RUN   STATUS\n…\n", "RUN  STATUS\nrun_aaaa1111  running\nrun_bbbb1111  exited\n", true],
  ["RUN  STATUS\n", "RUN  STATUS\nrun_aaaa1111  running\n", false],
  ["exit 120\n", "exit 0\n", false],
])("whether %j matches %j: %j", (page, printed, whether) => {
  expect(matchesPage(page, printed)).toBe(whether);
});
