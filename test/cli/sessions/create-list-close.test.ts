import { expect, test } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import type { SessionRecord } from "../../../src/model/session.js";
import { BatchCli, gatewayAndCliForFile } from "../../support/cli/batch-cli.js";

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

test("create prints an id and a token; the rules keep the order of the options", async () => {
  const words = ["--key", "k", "--agent", "a", "--deny", "env", "--allow", "echo 'a b' ...", "--ask", "*"];
  const { code, stdout, stderr } = await shared.batchCli.holdfast("sessions", "create", ...words);
  expect(code).toBe(0);
  expect(stderr).toContain("shown only once");
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

test("close by key or id ends the tokens, and list shows the state", async () => {
  const first = await create("--key", "by-key");
  const second = await create("--key", "by-id", "--parent", "by-key");
  const { stdout } = await shared.batchCli.holdfast("sessions", "list");
  expect(stdout).toMatch(new RegExp(`${second.session.id} +open .* by-id`));
  expect(await shared.batchCli.holdfast("sessions", "end", "by-key")).toMatchObject({
    code: 0,
    stdout: `${first.session.id} is closed; its tokens are no longer valid\n`,
  });
  expect(await shared.batchCli.holdfast("sessions", "end", second.session.id, "--json")).toMatchObject({
    code: 0,
    stdout: `${JSON.stringify({ sessionId: second.session.id, ended: true, children: [], runs: [] })}\n`,
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

test("inbox is read-only; --take and --acknowledge end the wait of messages that were printed", async () => {
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
    stderr: expect.stringContaining("all messages still wait") as string,
  });
  expect(await own("--take", "--limit", "1")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("one") as string,
    stderr: "holdfast: there are more messages\n",
  });
  expect(JSON.parse((await own("--take", "--json")).stdout)).toMatchObject({
    session: { id: session.id },
    messages: [{ id: third }],
    more: false,
  });
  expect(await own("--take")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "holdfast: no messages wait for the session\n",
  });
  expect(await own("--acknowledge", first ?? "")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: `holdfast: ${first} does not wait for this session, or no longer\n`,
  });
});
