import { beforeAll, expect, test } from "vitest";
import { clientAgent, scriptedAgent } from "../../support/agents/acp-fixture.js";
import { parseAnswers } from "../../support/agents/client-agent.js";
import { openScriptedSession, scriptedPrompt } from "../../support/agents/scripted-agent.js";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";
import { waitForText } from "../../support/cli/cli-fixture.js";

const shared = gatewayAndCliForFile();
const acp = (...args: readonly string[]) => shared.batchCli.holdfast("acp", ...args);
beforeAll(async () => {
  await openScriptedSession(shared.gatewayFixture, "asks");
});

test.each([
  ["allow", "<yes>", "allowed"],
  ["deny", "<no>", "denied"],
])("without a terminal the command to answer with is shown: %s", async (verdict, answered, word) => {
  const { child, finished } = shared.gatewayFixture.start(
    "acp",
    "prompt",
    "asks",
    scriptedPrompt({ ask: "leap" }, { say: " over" }),
  );
  await waitForText(child.stdout, "holdfast acp permissions show prm_");
  const { stdout } = await acp("permissions");
  expect(stdout).toMatch(
    /^PERMISSION +SESSION +STATE +SHOWN +FOR\nprm_\w+ +asks +expires in 4m\d+s +all +execute: leap\n$/,
  );
  const [id = ""] = /prm_\w+/.exec(stdout) ?? [];
  expect(await acp("permissions", verdict, id)).toMatchObject({ code: 0, stdout: `${id}: ${verdict}\n` });
  const answer = await finished;
  expect(answer).toMatchObject({ code: 0, stderr: "" });
  expect(answer.stdout).toMatch(
    new RegExp(
      `^\\? execute: leap \\(expires in .*\\): holdfast acp permissions show ${id}, then allow or deny\n`,
    ),
  );
  expect(answer.stdout.endsWith(`\n${word}: execute: leap (operator)\n\n${answered} over\n`)).toBe(true);
  const late = await acp("permissions", "deny", id);
  expect(late).toMatchObject({ code: 3, stdout: `${id}: too late, ${verdict} (operator)\n` });
  expect((await acp("permissions", "list")).stdout).toBe("");
  expect((await acp("permissions", "list", "--all", "--session", "asks")).stdout).toContain(
    `${verdict} (operator)`,
  );
});

test("a session cannot answer for the operator", async () => {
  const { session, token } = await (await shared.gatewayFixture.client()).openSession({ body: { key: "k" } });
  const { child, finished } = shared.gatewayFixture.startWith(
    { HOLDFAST_TOKEN: token },
    ...["acp", "permissions", "allow", "prm_000000000000"],
  );
  child.stdin.end();
  expect(await finished).toMatchObject({ code: 1, stdout: "" });
  expect(session.key).toBe("k");
});

test("rules answer without asking, and a denial is shown", async () => {
  const client = await shared.gatewayFixture.client();
  for (const [permissions, answered, shown] of [
    ["approve-all", "<yes>", ""],
    ["deny-all", "<no>", "denied: execute: leap (rule 1)\n\n"],
  ] as const) {
    const id = await openScriptedSession(shared.gatewayFixture, permissions, { permissions });
    const answer = await acp("prompt", permissions, scriptedPrompt({ ask: "leap" }));
    expect(answer).toMatchObject({ code: 0, stdout: `${shown}${answered}\n`, stderr: "" });
    await client.acpClose({ params: { id } });
  }
});

test("with --format quiet the request is shown on stderr", async () => {
  const { child, finished } = shared.gatewayFixture.start(
    ...["acp", "prompt", "asks", "--format", "quiet", scriptedPrompt({ ask: "leap" })],
  );
  await waitForText(child.stderr, "holdfast acp permissions show prm_");
  const [id = ""] = /prm_\w+/.exec((await acp("permissions")).stdout) ?? [];
  await acp("permissions", "allow", id);
  expect(await finished).toMatchObject({ code: 0, stdout: "<yes>\n" });
});

test("show prints what the title does not, and its digest allows the request", async () => {
  const title = `fetch ${"a".repeat(600)} then \u001b[2Kerase`;
  const { child, finished } = shared.gatewayFixture.start(
    "acp",
    "prompt",
    "asks",
    scriptedPrompt({ ask: title }),
  );
  await waitForText(child.stdout, "holdfast acp permissions show prm_");
  const { stdout: list } = await acp("permissions");
  expect(list).toMatch(/ part +execute: .*… \(not shown whole\)\n.*holdfast acp permissions show/);
  const [id = ""] = /prm_\w+/.exec(list) ?? [];
  expect(await acp("permissions", "allow", id)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`holdfast acp permissions show ${id}`) as string,
  });
  const { stdout } = await acp("permissions", "show", id);
  expect(stdout).toContain(String.raw`then \e[2Kerase'`);
  const [, digest = ""] = /--digest (\w+)\n$/.exec(stdout) ?? [];
  expect(await acp("permissions", "allow", id, "--digest", digest)).toMatchObject({ code: 0 });
  expect((await finished).stdout).toContain("<yes>");
});

test("options offer the gateway's files and terminals to an agent, and show lists them", async () => {
  const command = clientAgent.map((word) => `'${word}'`).join(" ");
  const uses = JSON.stringify([
    ["terminal/create", {}],
    ["fs/read_text_file", { path: "/etc/hostname" }],
  ]);
  const spawned = await acp(
    ...["spawn", "--agent-command", command, "--name", "uses", "--format", "quiet", "--cwd", "/tmp"],
    ...["--client-files", "read", "--client-root", "/usr/share", "--client-terminals", uses],
  );
  expect(spawned).toMatchObject({ code: 0 });
  const [bad, outside] = parseAnswers({ text: spawned.stdout });
  expect(bad).toMatchObject({ code: -32_602 });
  expect(outside).toMatchObject({ code: -32_001, message: expect.stringContaining("outside") as string });
  expect((await acp("show", "uses")).stdout).toContain(
    "offers     to read files in /tmp, /usr/share; terminals\n",
  );
  expect((await acp("show", "asks")).stdout).toContain("offers     nothing\n");
  await acp("close", "uses");
  expect(await acp("spawn", "--agent-command", command, "--client-files", "all")).toMatchObject({ code: 2 });
});

test("rules from the command line answer before the default rules, and show lists them", async () => {
  const command = scriptedAgent.map((word) => `'${word}'`).join(" ");
  const rules = ["--allow", "execute:git *", "--deny", "*:git push*", "--ask", "git status"];
  const asks = scriptedPrompt({ ask: "git log" }, { ask: "git push -f" });
  const spawned = await acp(
    ...["spawn", "--agent-command", command, "--name", "ruled", "--format", "quiet", ...rules, asks],
  );
  expect(spawned).toMatchObject({ code: 0, stdout: "<yes><no>\n" });
  expect((await acp("show", "ruled")).stdout).toContain(
    'rules      deny "git push*", ask "git status", allow execute "git *", allow read, allow search, ask everything\n',
  );
  await acp("close", "ruled");
  expect(await acp("spawn", "--agent-command", command, "--allow", "execute:")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("title of 1 to 1000 characters") as string,
  });
});

test("show lists the agent's options and the session's name, and --option chooses one", async () => {
  const { child, finished } = shared.gatewayFixture.start(
    ...["acp", "prompt", "asks", "--format", "quiet", scriptedPrompt({ ask: "leap" })],
  );
  await waitForText(child.stderr, "holdfast acp permissions show prm_");
  const [id = ""] = /prm_\w+/.exec((await acp("permissions")).stdout) ?? [];
  const { stdout } = await acp("permissions", "show", id);
  expect(stdout).toMatch(/^prm_\w+: session asks \(ses_\w+\), expires in/);
  expect(stdout).toContain('\noption "always": allow always, "Always"\noption "yes": allow once, "Yes"\n');
  expect(await acp("permissions", "deny", id, "--option", "always")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("are: no (No)") as string,
  });
  expect(await acp("permissions", "allow", id, "--option", "always")).toMatchObject({ code: 0 });
  expect(await finished).toMatchObject({ code: 0, stdout: "<always>\n" });
});

test("always and never are remembered for the session, listed and revoked", async () => {
  const asking = async (title: string, ...answer: readonly string[]): Promise<string> => {
    const { child, finished } = shared.gatewayFixture.start(
      ...["acp", "prompt", "asks", "--format", "quiet", scriptedPrompt({ ask: title })],
    );
    await waitForText(child.stderr, "holdfast acp permissions show prm_");
    const [id = ""] = /prm_\w+/.exec((await acp("permissions")).stdout) ?? [];
    const [verdict = "", ...flags] = answer;
    expect(await acp("permissions", verdict, id, ...flags)).toMatchObject({ code: 0 });
    return (await finished).stdout;
  };
  expect(await asking("git log", "allow", "--always")).toBe("<yes>\n");
  expect(await asking("git push", "deny", "--always", "--pattern", "*:git push*")).toBe("<no>\n");
  const prompt = scriptedPrompt({ ask: "git log" }, { ask: "git push -f" });
  expect(await acp("prompt", "asks", "--format", "quiet", prompt)).toMatchObject({ stdout: "<yes><no>\n" });
  const { stdout } = await acp("permissions", "rules");
  expect(stdout).toMatch(
    /^RULE +FOR +ADDED +BY +MEANING\nprl_\w+ +session asks +\S+ ago +operator +deny "git push\*"\nprl_\w+ +session asks +\S+ ago +operator +allow execute "git log"\n$/,
  );
  const [deny = "", allow = ""] = [...stdout.matchAll(/prl_\w+/g)].map(([id]) => id);
  expect(await acp("permissions", "revoke", deny, allow)).toMatchObject({
    code: 0,
    stdout: `${deny}: revoked: deny "git push*"\n${allow}: revoked: allow execute "git log"\n`,
  });
  expect(await acp("permissions", "revoke", deny)).toMatchObject({ code: 3 });
  expect((await acp("permissions", "rules")).stdout).toBe("");
  expect((await acp("permissions", "rules", "--all", "--session", "asks")).stdout).toContain(
    "revoked by operator",
  );
  expect(await asking("git log", "deny")).toBe("<no>\n");
});

test("a rule is added to a session or an agent, and bad input adds none", async () => {
  const added = await acp("permissions", "add", "allow", "execute:leap*", "--session", "asks");
  expect(added).toMatchObject({ code: 0, stdout: expect.stringMatching(/^prl_\w+\n$/) as string });
  const leap = await acp("prompt", "asks", "--format", "quiet", scriptedPrompt({ ask: "leaping" }));
  expect(leap).toMatchObject({ code: 0, stdout: "<yes>\n" });
  await acp("permissions", "revoke", added.stdout.trim());
  const agents = await acp("permissions", "add", "deny", "execute", "--agent", "codex");
  expect((await acp("permissions", "rules", "--agent", "codex", "--json")).stdout).toContain(
    agents.stdout.trim(),
  );
  for (const [args, code, why] of [
    [["add", "permit", "*", "--agent", "codex"], 2, "not allow, deny or ask"],
    [["add", "allow", "*"], 2, "either --session or --agent"],
    [["add", "allow", "*", "--agent", "nobody"], 2, "no ACP agent"],
    [["add", "allow", "*", "--session", "nobody"], 1, "nobody"],
    [["revoke", "prl_000000000000"], 1, "prl_000000000000"],
    [["revoke", "config:1"], 2, "rule of the config"],
    [["allow", "prm_000000000000", "--for", "agent"], 2, "need --always"],
    [["allow", "prm_000000000000", "--always", "--option", "x"], 2, "either --always"],
  ] as const)
    expect(await acp("permissions", ...args)).toMatchObject({
      code,
      stderr: expect.stringContaining(why) as string,
    });
  expect(await acp("permissions", "revoke", agents.stdout.trim())).toMatchObject({ code: 0 });
});

const form = (question: object): string => scriptedPrompt({ elicit: question }, { say: "!" });
const PORTS = {
  message: "Which ports?",
  requestedSchema: {
    type: "object",
    properties: {
      name: { type: "string", title: "Service" },
      ports: { type: "array", items: { type: "string" } },
    },
    required: ["name"],
  },
};

test("a question of an agent to its user is listed, shown, and answered, declined or dismissed", async () => {
  const ask = async (...answer: readonly string[]) => {
    const { child, finished } = shared.gatewayFixture.start("acp", "prompt", "asks", form(PORTS));
    await waitForText(child.stdout, "holdfast acp permissions show prm_");
    const { stdout: listed } = await acp("permissions");
    expect(listed).toMatch(/^prm_\w+ +asks +expires in 4m\d+s +part +elicitation: 'Which ports\?'$/m);
    const [id = ""] = /prm_\w+/.exec(listed) ?? [];
    const [verdict = "", ...options] = answer;
    const shown = await acp("permissions", "show", id);
    const wrong = await acp("permissions", "allow", id, "--answer", "speed=1");
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("has no field") as string });
    const answered = await acp("permissions", verdict, id, ...options);
    return { id, shown: shown.stdout, answered, stdout: (await finished).stdout };
  };
  const answers = ["--answer", "name=web", "--answer", "ports=80", "--answer", "ports=443"];
  const accepted = await ask("allow", ...answers);
  const { id } = accepted;
  expect(accepted.shown).toContain("field ports: '(list; optional)'");
  expect(accepted.shown).toContain(
    `to answer: holdfast acp permissions allow ${id} --answer 'name=<string>'; to decline: \`deny\`, to dismiss: \`cancel\``,
  );
  expect(accepted.answered).toMatchObject({ code: 0, stdout: `${id}: allow\n` });
  expect(accepted.stdout).toContain('\n<accept {"name":"web","ports":["80","443"]}>!\n');
  expect((await ask("deny")).stdout).toContain("\n<decline>!\n");
  const cancelled = await ask("cancel");
  expect(cancelled.answered).toMatchObject({ code: 0, stdout: `${cancelled.id}: cancel\n` });
  expect(cancelled.stdout).toContain("\n<cancel>!\n");
});
