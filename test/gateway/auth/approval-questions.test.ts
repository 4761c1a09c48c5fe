import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import { questionLines } from "../../../src/sessions/paginate-question.js";
import { newRunId } from "../../../src/model/ids.js";
import { gatewayForFile, errorOf, shellCommand, outputText } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile();
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "hf-question-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

type Asked = ResponseOf<"listApprovals">["approvals"][number];

async function session(key: string): Promise<{ readonly client: GatewayClient; readonly id: string }> {
  const { token, session: row } = await fixture.client.openSession({ body: { key, execRules: [] } });
  return { client: fixture.as(token), id: row.id };
}

async function asked(sessionId: string): Promise<Asked> {
  let found: Asked | undefined;
  await waitFor("it is asked", async () => {
    found = (await fixture.client.listApprovals()).approvals.find((each) => each.sessionId === sessionId);
    return found !== undefined;
  });
  return found ?? expect.fail("nothing is asked");
}

async function allow(id: string): Promise<string> {
  const { pages } = await fixture.client.showApproval({ params: { id } });
  const { parts, digest } = await fixture.client.showApproval({
    params: { id },
    query: { page: pages },
  });
  await fixture.client.decideApproval({
    params: { id },
    body: { verdict: "allow", digest: digest ?? "" },
  });
  return questionLines(parts).join("\n");
}

test("a question does not hide code behind text that looks like a header", async () => {
  const { client, id } = await session("hiding");
  const answer = client.exec({ body: shellCommand("echo Cookie: a; echo and more") });
  const approval = await asked(id);
  expect(approval.command).toMatch(/^(?:\/usr)?\/bin\/sh -c 'echo Cookie: a; echo and more'$/);
  await allow(approval.id);
  expect(outputText(await answer)).toBe("Cookie: a\nand more\n");
});

test("a question has the variables and the input that the command gets", async () => {
  const { client, id } = await session("complete");
  const { HOME: _home, ...environment } = process.env as Record<string, string>;
  const body = { argv: ["sh"], environment, env: { GIT_PAGER: "id; x" }, input: "echo run from stdin\n" };
  const answer = client.exec({ body });
  const approval = await asked(id);
  expect(approval.question).toEqual({ whole: false, digest: null });
  const params = { id: approval.id };
  const refused = await errorOf(fixture.client.decideApproval({ params, body: { verdict: "allow" } }));
  expect(refused).toMatchObject({ code: "BAD_INPUT", message: expect.stringContaining("approvals show") });
  const text = await allow(approval.id);
  expect(text).toContain("env GIT_PAGER: 'id; x' (not in the session's list of allowed variables)\n");
  // A variable that the caller lacks comes from the gateway and is not listed.
  expect(text).not.toContain("HOME");
  expect(text).toContain(String.raw`stdin: $'echo run from stdin\n`);
  expect(text).toContain("(20 bytes, then end of input)");
  expect(outputText(await answer)).toBe("run from stdin\n");
});

test("a question says that input can follow", async () => {
  const { client, id } = await session("open-input");
  const answers = [
    { stdin: "pipe" as const, argv: ["cat"] },
    { command: "cat" },
    { argv: ["cat"], pty: true },
  ].map((body) => errorOf(client.exec({ body: { ...body, background: true } })));
  for (const _ of answers) {
    const approval = await asked(id);
    const { parts } = await fixture.client.showApproval({ params: { id: approval.id } });
    expect(questionLines(parts).join("\n")).toMatch(
      /stdin: \((?:pipe|terminal)\) \(input can be sent to it later/,
    );
    await fixture.client.decideApproval({ params: { id: approval.id }, body: { verdict: "deny" } });
  }
  for (const answer of answers) expect((await answer).code).toBe("EXEC_DENIED");
});

test("a long command is read page by page, and secrets on request", async () => {
  const { client, id } = await session("long");
  const secret = `ghp_${"aB3".repeat(12)}`;
  const answer = errorOf(
    client.exec({
      body: { argv: ["echo", ...Array.from({ length: 3_000 }, (_, at) => `word ${at}`), secret] },
    }),
  );
  const approval = await asked(id);
  const params = { id: approval.id };
  const first = await fixture.client.showApproval({ params });
  expect(first.pages).toBeGreaterThan(1);
  expect(first.digest).toBeNull();
  const last = await fixture.client.showApproval({ params, query: { page: first.pages } });
  expect(last.digest).toMatch(/^[0-9a-f]{64}$/);
  expect(JSON.stringify(last.parts)).toContain("word 2999");
  expect(JSON.stringify(last.parts)).not.toContain(secret);
  const open = await fixture.client.showApproval({
    params,
    query: { page: first.pages, reveal: "1" },
  });
  expect(JSON.stringify(open.parts)).toContain(secret);
  await fixture.client.decideApproval({ params, body: { verdict: "deny" } });
  expect((await answer).code).toBe("EXEC_DENIED");
});

test("an allowed command is not executed if its path now leads to another program", async () => {
  const { client, id } = await session("exchanged");
  const program = async (at: string, text: string): Promise<void> => {
    await writeFile(join(directory, at), `#!/bin/sh\necho ${text}\n`);
    await chmod(join(directory, at), 0o755);
  };
  for (const name of ["first", "second"]) await mkdir(join(directory, name));
  await program("second/tool", "shown");
  const ownPath = process.env["PATH"];
  onTestFinished(() => void (process.env["PATH"] = ownPath));
  process.env["PATH"] = `${directory}/first:${directory}/second:${ownPath}`;
  const answer = errorOf(client.exec({ body: { argv: ["tool"] } }));
  const approval = await asked(id);
  expect(approval.executable).toBe(`${directory}/second/tool`);
  await program("first/tool", "not shown");
  await allow(approval.id);
  expect(await answer).toMatchObject({
    code: "EXEC_DENIED",
    message: expect.stringContaining(`${directory}/first/tool would be executed now`),
  });
  expect((await client.listRuns({ query: { all: "1" } })).runs).toEqual([]);
});

test("only the operator reads a question", async () => {
  const { client, id } = await session("curious");
  const answer = errorOf(client.exec({ body: { argv: ["true"] } }));
  const approval = await asked(id);
  expect((await errorOf(client.showApproval({ params: { id: approval.id } }))).code).toBe("NOT_FOUND");
  expect((await errorOf(fixture.client.showApproval({ params: { id: "apr_000000000000" } }))).code).toBe(
    "NOT_FOUND",
  );
  await fixture.client.decideApproval({ params: { id: approval.id }, body: { verdict: "deny" } });
  await answer;
});

test("nothing is appended to input that was shown as the whole input", async () => {
  const { client, id } = await session("more-input");
  // More than a pipe and the anchor hold: it waits here while the shell sleeps.
  const input = `sleep 1\n# ${"x".repeat(1_000_000)}\n`;
  const runId = newRunId();
  const answer = client.exec({ body: { argv: ["sh"], input, runId } });
  await allow((await asked(id)).id);
  await waitFor("it runs", async () =>
    (await fixture.client.listRuns()).runs.some((run) => run.runId === runId),
  );
  const more = { params: { runId }, body: { text: "echo not shown\n" } };
  expect(await errorOf(client.write(more))).toMatchObject({ code: "STDIN_CLOSED" });
  expect(outputText(await answer)).toBe("");
});

test("nothing is inserted before input that was shown as the whole input", async () => {
  const { client, id } = await session("earlier-input");
  const runId = newRunId();
  const answer = client.exec({ body: { argv: ["sh"], input: "echo shown\n", runId } });
  await allow((await asked(id)).id);
  const stop = new AbortController();
  const writing = (async () => {
    const more = { params: { runId }, body: { text: "echo not shown\n" } };
    while (!stop.signal.aborted) await client.write(more).catch(() => undefined);
  })();
  try {
    expect(outputText(await answer)).toBe("shown\n");
  } finally {
    stop.abort();
    await writing;
  }
});
