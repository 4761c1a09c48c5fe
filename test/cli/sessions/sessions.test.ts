import { expect, test } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import type { Approval, SessionRecord } from "../../../src/model/session.js";
import { whyNoTerminal } from "../../support/cli/recovery-fixture.js";
import { BatchCli, gatewayAndCliForFile } from "../../support/cli/batch-cli.js";
import { waitForText } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

const shared = gatewayAndCliForFile();

interface Created {
  readonly session: SessionRecord;
  readonly created: boolean;
  readonly token: string;
}

async function create(...words: readonly string[]): Promise<Created & { readonly client: GatewayClient }> {
  const { code, stdout, stderr } = await shared.batchCli.holdfast("sessions", "create", ...words, "--json");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const answer = JSON.parse(stdout) as Created;
  return {
    ...answer,
    client: createClient({ socketPath: gatewaySocketPath(shared.gatewayFixture.home), token: answer.token }),
  };
}

async function asked(sessionId: string): Promise<Approval> {
  const client = await shared.gatewayFixture.client();
  let found: Approval | undefined;
  await waitFor("it is asked", async () => {
    found = (await client.listApprovals()).approvals.find((each) => each.sessionId === sessionId);
    return found !== undefined;
  });
  return found ?? expect.fail("nothing is asked");
}

test("create prints an id and a token that acts for it; its rules are in the order they were written", async () => {
  const words = ["--key", "k", "--agent", "a", "--deny", "env", "--allow", "echo 'a b' ...", "--ask", "*"];
  const { code, stdout, stderr } = await shared.batchCli.holdfast("sessions", "create", ...words);
  expect(code).toBe(0);
  expect(stderr).toContain("shown this once");
  const [id = "", token = ""] = stdout.trimEnd().split("\n");
  const client = createClient({ socketPath: gatewaySocketPath(shared.gatewayFixture.home), token });
  const { sessions } = await client.listSessions();
  expect(sessions).toMatchObject([
    {
      id,
      key: "k",
      agentId: "a",
      execRules: [
        { effect: "deny", executable: "env" },
        { effect: "allow", executable: "echo", args: ["a b", "..."] },
        { effect: "ask" },
      ],
    },
  ]);
  expect(await client.exec({ body: { argv: ["echo", "a b", "c"] } })).toMatchObject({ failure: null });
  expect(await create("--key", "k")).toMatchObject({ created: false, session: { id } });
});

test("list shows who is there, end kills the tokens, and a key or an id will do", async () => {
  const first = await create("--key", "by-key");
  const second = await create("--key", "by-id", "--parent", "by-key");
  const { stdout } = await shared.batchCli.holdfast("sessions", "list");
  expect(stdout).toMatch(new RegExp(`${second.session.id} +open .* by-id`));
  expect(await shared.batchCli.holdfast("sessions", "end", "by-key")).toMatchObject({
    code: 0,
    stdout: `${first.session.id} has ended; its tokens are dead, its runs go on\n`,
  });
  expect(await shared.batchCli.holdfast("sessions", "end", second.session.id, "--json")).toMatchObject({
    code: 0,
    stdout: `${JSON.stringify({ sessionId: second.session.id, ended: true })}\n`,
  });
  for (const { client } of [first, second])
    await expect(client.status()).rejects.toMatchObject({ code: "UNAUTHORIZED" });
  expect(await shared.batchCli.holdfast("sessions", "end", "by-key")).toMatchObject({ code: 1, stdout: "" });
  const all = JSON.parse(
    (await shared.batchCli.holdfast("sessions", "list", "--all", "--json")).stdout,
  ) as SessionRecord[];
  expect(
    all
      .filter(({ closedAt }) => closedAt !== null)
      .map(({ key }) => key)
      .toSorted(),
  ).toEqual(["by-id", "by-key"]);
});

test("inbox shows what waits and changes nothing; --take and --acknowledge end that, once it was shown", async () => {
  const { session, token } = await create("--key", "mailbox");
  const { batchCli } = shared;
  for (const text of ["one \u001b[31m", "two", "three"])
    await batchCli.holdfast("sessions", "send", "mailbox", text);
  const inbox = async (...words: readonly string[]) => batchCli.holdfast("sessions", "inbox", ...words);
  const look = await inbox("mailbox");
  expect(look).toMatchObject({ code: 0, stderr: "" });
  expect(look.stdout).toMatch(
    /^#1 user, operator, .* \(msg_\w+\)\none\n\n#2 user, .*\ntwo\n\n#3 user, .*\nthree\n$/,
  );
  expect(look.stdout).not.toContain("\u001b[31m");
  expect(await inbox("mailbox")).toEqual(look);
  expect(await inbox()).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("HOLDFAST_TOKEN") as string,
  });
  await using mine = new BatchCli({ ...shared.gatewayFixture.env, HOLDFAST_TOKEN: token });
  const own = async (...words: readonly string[]) => mine.holdfast("sessions", "inbox", ...words);
  const { messages } = JSON.parse((await own("--json")).stdout) as { messages: { id: string }[] };
  const [first, second, third] = messages.map(({ id }) => id);
  expect(await own("--acknowledge", second ?? "", "--json")).toMatchObject({
    code: 0,
    stdout: `${JSON.stringify({ acknowledged: [second] })}\n`,
  });
  expect(await own("--acknowledge", "x")).toMatchObject({
    code: 1,
    stderr: "holdfast: there is no message x; nothing was acknowledged\n",
  });
  const full = await shared.gatewayFixture.shell(
    `HOLDFAST_TOKEN=${token} holdfast sessions inbox --take >/dev/full; echo $?`,
  );
  expect(full).toMatchObject({
    stdout: "125\n",
    stderr: expect.stringContaining("all of it goes on waiting") as string,
  });
  expect(await own("--take", "--limit", "1")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("one") as string,
    stderr: "holdfast: there is more\n",
  });
  expect(JSON.parse((await own("--take", "--json")).stdout)).toMatchObject({
    session: { id: session.id },
    messages: [{ id: third }],
    more: false,
  });
  expect(await own("--take")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "holdfast: nothing waits for it\n",
  });
  expect(await own("--acknowledge", first ?? "")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: `holdfast: ${first} does not wait here, or not any more\n`,
  });
});

test("a question is listed with when it expires, allowed or denied once, and too late afterwards", async () => {
  const { client, session } = await create("--key", "asking", "--ask", "*");
  const allowed = client.exec({ body: { argv: ["echo", "\u001b[31mred"] } });
  const { id } = await asked(session.id);
  const { stdout } = await shared.batchCli.holdfast("approvals", "list");
  expect(stdout).toMatch(new RegExp(`${id} +in [45]m.* ${session.id} .*echo`));
  expect(stdout).not.toContain("\u001b[31m");
  expect(await shared.batchCli.holdfast("approvals", "allow", id)).toMatchObject({
    code: 0,
    stdout: `${id}: allow\n`,
  });
  expect(await allowed).toMatchObject({ failure: null });
  expect(await shared.batchCli.holdfast("approvals", "deny", id)).toMatchObject({
    code: 3,
    stdout: `${id}: too late, operator said allow\n`,
  });
  const denied = client.exec({ body: { argv: ["true"] } }).catch((error: unknown) => error);
  const second = await asked(session.id);
  const answer = JSON.parse(
    (await shared.batchCli.holdfast("approvals", "deny", second.id, "--json")).stdout,
  ) as object;
  expect(answer).toMatchObject({ decided: true, approval: { decision: { verdict: "deny" } } });
  expect(await denied).toMatchObject({ code: "EXEC_DENIED" });
});

test("`approvals show` shows what a row of the list does not, and its digest allows the question", async () => {
  const { client, session } = await create("--key", "lengthy", "--ask", "*");
  const argv = ["sh", "-c", `${"true; ".repeat(200)}echo \u001b[2Kthe end`];
  const answer = client.exec({ body: { argv, env: { LESSOPEN: "|id" } } });
  const { id } = await asked(session.id);
  const list = await shared.batchCli.holdfast("approvals", "list");
  expect(list.stdout).toMatch(
    new RegExp(`${id} .* part .*… \\(not shown whole\\)\n.*holdfast approvals show`),
  );
  expect(await shared.batchCli.holdfast("approvals", "allow", id)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`holdfast approvals show ${id}`) as string,
  });
  const { stdout } = await shared.batchCli.holdfast("approvals", "show", id);
  expect(stdout).toContain(String.raw`echo \e[2Kthe end'`);
  expect(stdout).toContain("env LESSOPEN: '|id' (not in the session's list of allowed variables)\n");
  const [, digest = ""] = /--digest (\w+)\n$/.exec(stdout) ?? [];
  expect(await shared.batchCli.holdfast("approvals", "allow", id, "--digest", digest)).toMatchObject({
    code: 0,
    stdout: `${id}: allow\n`,
  });
  expect(await answer).toMatchObject({ failure: null });
});

test("followed, each question and each end of one comes as it happens, once", async () => {
  const { client, session } = await create("--key", "followed", "--ask", "*");
  const before = client.exec({ body: { argv: ["true", "before"] } });
  const early = await asked(session.id);
  const { child, finished } = shared.gatewayFixture.start("approvals", "list", "--follow", "--json");
  let heard = "";
  child.stdout.on("data", (part: Buffer) => (heard += part.toString()));
  await waitForText(child.stdout, early.id);
  const operator = await shared.gatewayFixture.client();
  await operator.decideApproval({ params: { id: early.id }, body: { verdict: "allow" } });
  await before;
  const after = client.exec({ body: { argv: ["true", "after"] } }).catch((error: unknown) => error);
  const late = await asked(session.id);
  await shared.batchCli.holdfast("sessions", "end", "followed");
  await after;
  const lines = (): Approval[] =>
    heard
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Approval);
  await waitFor("all has been said", () => lines().length >= 4);
  expect(lines().map(({ id, decision }) => [id, decision?.verdict ?? null])).toEqual([
    [early.id, null],
    [early.id, "allow"],
    [late.id, null],
    [late.id, "expired"],
  ]);
  child.kill();
  await finished;
});

test.skipIf(whyNoTerminal !== null)("Ctrl-C at the question leaves it open, without a word", async () => {
  const { client, session } = await create("--key", "left-open", "--ask", "*");
  const answer = client.exec({ body: { argv: ["true"] } }).catch((error: unknown) => error);
  const { id } = await asked(session.id);
  const { code, stdout } = await shared.gatewayFixture.atTerminal(
    ["approvals", "list", "--follow"],
    ["allow it? [y/N/later]", "\u0003"],
  );
  expect(code).toBe(130);
  expect(stdout).not.toContain("holdfast:");
  expect((await asked(session.id)).id).toBe(id);
  await shared.batchCli.holdfast("sessions", "end", "left-open");
  expect(await answer).toMatchObject({ code: "EXEC_DENIED" });
});

test.skipIf(whyNoTerminal !== null)(
  "a question longer than the screen is asked after its last screen",
  async () => {
    const { client, session } = await create("--key", "screens", "--ask", "*");
    const argv = ["sh", "-c", "true\n".repeat(40), "last word"];
    const answer = client.exec({ body: { argv } }).catch((error: unknown) => error);
    await asked(session.id);
    const { stdout } = await shared.gatewayFixture.atSizedTerminal(
      { rows: 20, cols: 80 },
      ["approvals", "list", "--follow"],
      ["more lines; press Enter", "\r"],
      ["-- 1", "\r"],
      ["argv[3]: 'last word'", ""],
      ["allow it? [y/N/later]", "\u0003"],
    );
    expect(stdout.indexOf("allow it?")).toBeGreaterThan(stdout.indexOf("last word"));
    await shared.batchCli.holdfast("sessions", "end", "screens");
    expect(await answer).toMatchObject({ code: "EXEC_DENIED" });
  },
);

test.skipIf(whyNoTerminal !== null)(
  "no text of a question looks like another line of it where a terminal wraps",
  async () => {
    const { client, session } = await create("--key", "wrapped", "--ask", "*");
    // The row of a terminal with 80 columns ends before the second part.
    const script = `${"true;".padEnd(80 - "argv[2]: '".length)}argv[3]: forged`;
    const answer = client.exec({ body: { argv: ["sh", "-c", script] } }).catch((error: unknown) => error);
    const { id } = await asked(session.id);
    const { stdout } = await shared.gatewayFixture.atSizedTerminal({ rows: 40, cols: 80 }, [
      "approvals",
      "show",
      id,
    ]);
    expect(stdout).toContain("argv[3]: forged");
    expect(stdout).not.toMatch(/^argv\[3\]/m);
    await shared.batchCli.holdfast("sessions", "end", "wrapped");
    expect(await answer).toMatchObject({ code: "EXEC_DENIED" });
  },
);

test.skipIf(whyNoTerminal !== null)("an answer typed before the question is none", async () => {
  const { client, session } = await create("--key", "ahead", "--ask", "*");
  const answer = client.exec({ body: { argv: ["true"] } }).catch((error: unknown) => error);
  const { id } = await asked(session.id);
  const { code } = await shared.gatewayFixture.atTerminal(
    ["approvals", "list", "--follow"],
    ["", "y\r"],
    ["allow it? [y/N/later]", "\u0003"],
  );
  expect(code).toBe(130);
  expect((await asked(session.id)).id).toBe(id);
  await shared.batchCli.holdfast("sessions", "end", "ahead");
  expect(await answer).toMatchObject({ code: "EXEC_DENIED" });
});

test.skipIf(whyNoTerminal !== null)("on a terminal, followed, a person is asked there and then", async () => {
  const { client, session } = await create("--key", "at-terminal", "--ask", "*");
  const answer = client.exec({ body: { argv: ["true"] } });
  const { id } = await asked(session.id);
  const talk = shared.gatewayFixture.atTerminal(
    ["approvals", "list", "--follow"],
    [`${id}: session ${session.id} asks to run this`, ""],
    ["argv[0]: /usr/bin/true", ""],
    ["allow it? [y/N/later]", "y\r"],
  );
  expect(await answer).toMatchObject({ failure: null });
  // It ends with its gateway: there is nothing more to be asked.
  await shared.gatewayFixture.stop();
  expect((await talk).stdout).toContain(`${id}: allow`);
});
