import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startHttpReceiver } from "../../support/http-receiver.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import type { CliResult } from "../../support/cli/cli-fixture.js";

const KEY = Buffer.alloc(32, "hush!");
const SECRET = `whsec_${KEY.toString("base64")}`;
const TOKEN = `123456:${"hush".repeat(9)}`;

test("channels are listed, checked and tested as configured, and no secret is printed", async () => {
  await using gatewayFixture = await BackgroundGateway.open();
  const there = await startHttpReceiver();
  const busy = await startHttpReceiver((_, response) =>
    response.writeHead(429, { "retry-after": "9" }).end("later"),
  );
  const path = join(gatewayFixture.home, "config.toml");
  const secret = join(gatewayFixture.home, "secret");
  await writeFile(secret, SECRET, { mode: 0o600 });
  const near = 'allow-http = true\nallow-networks = ["127.0.0.1"]\n';
  const hook = (url: string): string =>
    `kind = "webhook"\nurl = "${url}"\nsecrets = [{ file = "${secret}" }]\n`;
  await writeFile(
    path,
    [
      `[channels.ops]\n${hook(`${there.url}/hush`)}${near}`,
      `[channels.busy]\n${hook(`${busy.url}/hush`)}${near}`,
      `[channels.inside]\n${hook("https://10.0.0.1/hush")}`,
      `[channels.bot]\nkind = "telegram"\ntoken = { env = "BOT_TOKEN" }\nchat = "42"\nroot = "${busy.url}"\n${near}`,
      `[channels.pager]\nkind = "command"\nargv = ["sh", "-c", "cat >&2; exit 3"]\n`,
      `[channels.none]\nkind = "command"\nargv = ["no-such-pager"]\n`,
      `[channels.bell]\nkind = "bell"\n`,
    ].join("\n"),
  );
  const printed: string[] = [];
  const holdfast = async (...words: readonly string[]): Promise<CliResult> => {
    const { child, finished } = gatewayFixture.startWith(
      { HOLDFAST_CONFIG: path, BOT_TOKEN: TOKEN },
      ...words,
    );
    child.stdin.end();
    const done = await finished;
    printed.push(done.stdout, done.stderr);
    return done;
  };

  // Read from the file: no gateway is started.
  const listed = await holdfast("notify", "channels");
  expect(listed).toMatchObject({ code: 0, stderr: "" });
  expect(listed.stdout).toMatch(/^CHANNEL +KIND +WHERE\nops +webhook +http:\/\/127\.0\.0\.1:\d+\n/);
  const { stdout: checks, code } = await holdfast("doctor");
  expect(code).toBe(1);
  expect(checks).toMatch(/^ok {4}channel ops +webhook: http:\/\/127\.0\.0\.1:\d+$/m);
  expect(checks).toMatch(
    /^bad {3}channel inside +webhook: 10\.0\.0\.1 is not a public address, so nothing is sent to it$/m,
  );
  expect(checks).toMatch(/^bad {3}channel none +command: there is no program no-such-pager$/m);
  expect([...there.received, ...busy.received]).toEqual([]);
  expect(await readdir(gatewayFixture.home)).not.toContain("gateway-id");

  const delivered = await holdfast("notify", "test", "ops");
  expect(delivered).toMatchObject({ code: 0 });
  expect(delivered.stdout).toMatch(/^delivered by ops, http:\/\/127\.0\.0\.1:\d+ \(receipt 200\)\n$/);
  expect(delivered.stderr).toContain("started a gateway in the background");
  expect(there.received[0]?.headers["webhook-id"]).toMatch(/^test:/);

  const [refused, json, threaded, chatless, pager, none, bell, unknown] = (await Promise.all(
    [
      ["busy"],
      ["inside", "--json"],
      ["bot", "--address", "7/8"],
      ["bot", "--address", "7/8/9"],
      ["pager"],
      ["none"],
      ["bell"],
      ["opps"],
    ].map((words) => holdfast("notify", "test", ...words)),
  )) as [CliResult, CliResult, CliResult, CliResult, CliResult, CliResult, CliResult, CliResult];
  expect(refused).toMatchObject({ code: 3, stdout: "" });
  expect(refused.stderr).toMatch(
    /^holdfast: not delivered by busy: 127\.0\.0\.1:\d+ answered 429: later; a notification would be retried, not before 9 s as the receiver requests\n$/,
  );
  expect(json).toMatchObject({ code: 3, stderr: "" });
  expect(JSON.parse(json.stdout)).toMatchObject({
    channel: { name: "inside", kind: "webhook", where: "https://10.0.0.1" },
    delivered: false,
    failure: { permanent: false, retryAfterMs: null },
  });
  expect(threaded.stderr).toContain("answered 429: later");
  expect(busy.received.map(({ body }) => JSON.parse(body) as unknown)).toContainEqual(
    expect.objectContaining({ chat_id: "7", message_thread_id: 8 }),
  );
  expect(pager.stderr).toMatch(
    /not delivered by pager: the program exited with 3: \{"type":"task\.terminal".* \(run_\w+\); a notification would be retried\n$/,
  );
  expect(none.stderr).toMatch(/no-such-pager.*; a notification would be retried\n$/);
  expect(chatless.stderr).toMatch(
    /neither the notification nor the config has a Telegram chat; a retry cannot succeed\n$/,
  );
  expect(bell.stderr).toContain("no terminal is attached");
  expect(unknown).toMatchObject({ code: 1, stdout: "" });
  expect(unknown.stderr).toContain("there is no channel opps; `holdfast notify channels` lists all");

  // A session may not send.
  const { token } = JSON.parse((await holdfast("sessions", "create", "--key", "k", "--json")).stdout) as {
    token: string;
  };
  const session = gatewayFixture.startWith({ HOLDFAST_TOKEN: token }, "notify", "test", "ops");
  session.child.stdin.end();
  expect(await session.finished).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringContaining("only the operator may test a channel"),
  });
  expect(there.received).toHaveLength(1);

  await Promise.all([holdfast("config", "show", "--json"), holdfast("notify", "channels", "--json")]);
  printed.push(await readFile(join(gatewayFixture.home, "gateway.log"), "utf8"));
  for (const hidden of ["hush", KEY.toString("base64").slice(0, 20)])
    expect(printed.filter((text) => text.includes(hidden))).toEqual([]);
});
