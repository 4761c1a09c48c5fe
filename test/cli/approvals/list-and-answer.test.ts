import { describe, expect, test } from "vitest";
import { createClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import type { Approval } from "../../../src/model/exec/approval.js";
import type { SessionRecord } from "../../../src/model/session.js";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";
import { waitForText } from "../../support/cli/cli-fixture.js";
import { whyNoTerminal } from "../../support/cli/recovery-fixture.js";
import { waitFor } from "../../support/wait-for.js";

const shared = gatewayAndCliForFile();
const approvals = (...words: readonly string[]) => shared.batchCli.holdfast("approvals", ...words);

/** A session whose commands all need an approval. */
class AskingSession implements AsyncDisposable {
  readonly #client;
  readonly session: SessionRecord;

  private constructor(session: SessionRecord, token: string) {
    this.session = session;
    this.#client = createClient({ socketPath: gatewaySocketPath(shared.gatewayFixture.home), token });
  }

  static async open(key: string): Promise<AskingSession> {
    const client = await shared.gatewayFixture.client();
    const answer = await client.openSession({ body: { key, execRules: [{ effect: "ask" }] } });
    return new AskingSession(answer.session, answer.token);
  }

  /** Requests a command and waits until it is asked. `answer` resolves with the result or the error. */
  async request(argv: string[], env?: Record<string, string>) {
    const body = { argv, ...(env === undefined ? {} : { env }) };
    const answer: Promise<unknown> = this.#client.exec({ body }).catch((error: unknown) => error);
    return { id: (await this.approval()).id, answer };
  }

  async approval(): Promise<Approval> {
    const client = await shared.gatewayFixture.client();
    let found: Approval | undefined;
    await waitFor("the command waits for approval", async () => {
      found = (await client.listApprovals()).approvals.find(({ sessionId }) => sessionId === this.session.id);
      return found !== undefined;
    });
    return found ?? expect.fail("no command waits");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await shared.batchCli.holdfast("sessions", "close", this.session.key);
  }
}

test("an approval is listed with its expiry and answered once; a later answer is too late", async () => {
  await using asking = await AskingSession.open("asking");
  const first = await asking.request(["echo", "\u001b[31mred"]);
  const { stdout } = await approvals("list");
  expect(stdout).toMatch(new RegExp(`${first.id} +in [45]m.* ${asking.session.id} .*echo`));
  expect(stdout).not.toContain("\u001b[31m");
  expect(await approvals("allow", first.id)).toMatchObject({ code: 0, stdout: `${first.id}: allow\n` });
  expect(await first.answer).toMatchObject({ failure: null });
  expect(await approvals("deny", first.id)).toMatchObject({
    code: 3,
    stdout: `${first.id}: too late, operator answered allow\n`,
  });
  const second = await asking.request(["true"]);
  expect(JSON.parse((await approvals("deny", second.id, "--json")).stdout)).toMatchObject({
    decided: true,
    approval: { decision: { verdict: "deny" } },
  });
  expect(await second.answer).toMatchObject({ code: "EXEC_DENIED" });
});

test("show prints what a row of the list does not, and its digest allows the command", async () => {
  await using asking = await AskingSession.open("lengthy");
  const script = `${"true; ".repeat(200)}echo \u001b[2Kthe end`;
  const { id, answer } = await asking.request(["sh", "-c", script], { LESSOPEN: "|id" });
  expect((await approvals("list")).stdout).toMatch(
    new RegExp(`${id} .* part .*… \\(not shown whole\\)\n.*holdfast approvals show`),
  );
  expect(await approvals("allow", id)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`holdfast approvals show ${id}`) as string,
  });
  const { stdout } = await approvals("show", id);
  expect(stdout).toContain(String.raw`echo \e[2Kthe end'`);
  expect(stdout).toContain("env LESSOPEN: '|id' (not in the session's list of allowed variables)\n");
  const [, digest = ""] = /--digest (\w+)\n$/.exec(stdout) ?? [];
  expect(await approvals("allow", id, "--digest", digest)).toMatchObject({ code: 0 });
  expect(await answer).toMatchObject({ failure: null });
});

test("list --follow prints each approval and each decision once", async () => {
  const asking = await AskingSession.open("followed");
  const early = await asking.request(["true", "before"]);
  const { child, finished } = shared.gatewayFixture.start("approvals", "list", "--follow", "--json");
  let output = "";
  child.stdout.on("data", (part: Buffer) => (output += part.toString()));
  await waitForText(child.stdout, early.id);
  await approvals("allow", early.id);
  await early.answer;
  const late = await asking.request(["true", "after"]);
  await asking[Symbol.asyncDispose]();
  await late.answer;
  const lines = (): Approval[] => {
    const all = output.trimEnd().split("\n");
    return all.map((line) => JSON.parse(line) as Approval);
  };
  await waitFor("all decisions are printed", () => lines().length >= 4);
  expect(lines().map(({ id, decision }) => [id, decision?.verdict ?? null])).toEqual([
    [early.id, null],
    [early.id, "allow"],
    [late.id, null],
    [late.id, "expired"],
  ]);
  child.kill();
  await finished;
});

describe.skipIf(whyNoTerminal !== null)("on a terminal", () => {
  const FOLLOW = ["approvals", "list", "--follow"];
  const QUESTION = "allow it? [y/N/later]";

  test.each([
    ["Ctrl-C leaves the approval open", []],
    ["an answer typed before the question is ignored", [["", "y\r"]]],
  ] as const)("%s", async (name, before) => {
    await using asking = await AskingSession.open(name.replaceAll(" ", "-"));
    const { id } = await asking.request(["true"]);
    const { code, stdout } = await shared.gatewayFixture.atTerminal(FOLLOW, ...before, [QUESTION, "\u0003"]);
    expect(code).toBe(130);
    expect(stdout).not.toContain("holdfast:");
    expect((await asking.approval()).id).toBe(id);
  });

  test("a command longer than the screen is asked after its last screen", async () => {
    await using asking = await AskingSession.open("screens");
    await asking.request(["sh", "-c", "true\n".repeat(40), "last word"]);
    const { stdout } = await shared.gatewayFixture.atSizedTerminal(
      { rows: 20, cols: 80 },
      FOLLOW,
      ["more lines; press Enter", "\r"],
      ["-- 1", "\r"],
      ["argv[3]: 'last word'", ""],
      [QUESTION, "\u0003"],
    );
    expect(stdout.indexOf("allow it?")).toBeGreaterThan(stdout.indexOf("last word"));
  });

  test("wrapped text cannot look like another line of the question", async () => {
    await using asking = await AskingSession.open("wrapped");
    // The row of a terminal with 80 columns ends before the second part.
    const script = `${"true;".padEnd(80 - "argv[2]: '".length)}argv[3]: forged`;
    const { id } = await asking.request(["sh", "-c", script]);
    const size = { rows: 40, cols: 80 };
    const { stdout } = await shared.gatewayFixture.atSizedTerminal(size, ["approvals", "show", id]);
    expect(stdout).toContain("argv[3]: forged");
    expect(stdout).not.toMatch(/^argv\[3\]/m);
  });

  // Last: it stops the gateway.
  test("list --follow asks about each command and ends with the gateway", async () => {
    const asking = await AskingSession.open("at-terminal");
    const { id, answer } = await asking.request(["true"]);
    const talk = shared.gatewayFixture.atTerminal(
      FOLLOW,
      [`${id}: session ${asking.session.id} requests to run this`, ""],
      ["argv[0]: /usr/bin/true", ""],
      [QUESTION, "y\r"],
    );
    expect(await answer).toMatchObject({ failure: null });
    await shared.gatewayFixture.stop();
    expect((await talk).stdout).toContain(`${id}: allow`);
  });
});
