import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { ResponseOf } from "../../../src/api/contract.js";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";
import {
  openScriptedSession,
  planStep,
  scriptedPrompt,
  toolStep,
} from "../../support/agents/scripted-agent.js";

type Update = ResponseOf<"acpWatch">["updates"][number];

const shared = gatewayAndCliForFile();
beforeAll(() => openScriptedSession(shared.gatewayFixture, "r"), 30_000);

const acp = (...args: readonly string[]) => shared.batchCli.holdfast("acp", ...args);

const TURN = scriptedPrompt(
  { think: "first I\nlook, " },
  { think: "then I leap" },
  planStep(["look", "in_progress"], ["leap", "pending"]),
  { say: "Let me " },
  { say: "look.\n" },
  toolStep("a", "pending", { title: "read\nthe file", kind: "read" }),
  toolStep("a", "in_progress"),
  toolStep("b", "pending", { title: "leap", kind: "other" }),
  toolStep("a", "completed"),
  toolStep("b", "failed"),
  planStep(["look", "completed"], ["leap", "in_progress"]),
  { say: " Done." },
);

describe("off a terminal", () => {
  test("text shows the agent's text, thoughts in one line, and the start and end of tools", async () => {
    const { code, stdout, stderr } = await acp("prompt", "r", TURN);
    expect(stdout).toBe(
      [
        "~ first I look, then I leap",
        "plan: 0 of 2 done, now: look",
        "",
        "Let me look.",
        "",
        "· read: read the file  pending",
        "· leap  pending",
        "✓ read: read the file  completed",
        "✗ leap  failed",
        "plan: 1 of 2 done, now: leap",
        "",
        "Done.",
        "",
      ].join("\n"),
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  });

  test("--thoughts shows thoughts in full", async () => {
    const { stdout } = await acp(
      "prompt",
      "r",
      "--thoughts",
      scriptedPrompt({ think: "one\ntwo" }, { say: "three" }),
    );
    expect(stdout).toBe("one\ntwo\n\nthree\n");
  });

  test("empty lines at the end of a text do not add up", async () => {
    const done = (id: string) => toolStep(id, "completed", { title: "look", kind: "read" });
    const words = [
      { say: "one\n" },
      { say: "\n" },
      done("a"),
      { say: "two\n\n" },
      { say: "three\n\n\n" },
      done("b"),
    ];
    const { stdout } = await acp("prompt", "r", scriptedPrompt(...words, { say: "four\n\n" }));
    expect(stdout).toBe(
      "one\n\n✓ read: look  completed\n\ntwo\n\nthree\n\n✓ read: look  completed\n\nfour\n",
    );
  });

  test("quiet prints only the answer", async () => {
    const { code, stdout, stderr } = await acp("prompt", "r", "--format", "quiet", TURN);
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "Let me look.\n Done.\n", stderr: "" });
  });

  test("json prints every frame, one object per line", async () => {
    const { code, stdout } = await acp("prompt", "r", "--format", "json", TURN);
    const updates = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Update);
    const sent = (JSON.parse(TURN) as { update?: unknown }[]).flatMap(({ update }) => update ?? []);
    const received = updates.filter(({ type }) => type === "update").map(({ data }) => data);
    expect(received).toHaveLength(12);
    expect(received.filter((each) => !/chunk/.test(JSON.stringify(each)))).toEqual(sent);
    const seqs = updates.map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.map((_, at) => (seqs[0] ?? 0) + at));
    expect(updates.filter(({ type }) => type !== "update").map(({ type }) => type)).toEqual([
      "turn",
      "turn",
      "turn",
      "audit",
    ]);
    expect(code).toBe(0);
  });

  test("--json prints the record of the turn", async () => {
    const { code, stdout, stderr } = await acp("prompt", "r", "--json", TURN);
    expect(JSON.parse(stdout)).toMatchObject({
      turn: { outcome: "completed", text: "Let me look.\n Done.", toolCalls: [{ id: "a" }, { id: "b" }] },
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  });

  test("- reads the prompt from stdin; an empty prompt is refused", async () => {
    const { child, finished } = shared.gatewayFixture.start("acp", "prompt", "r", "-");
    child.stdin.end("from afar\n");
    expect(await finished).toMatchObject({ code: 0, stdout: "from afar\n" });
    const empty = await acp("prompt", "r", " ");
    expect(empty).toMatchObject({
      code: 2,
      stdout: "",
      stderr: "holdfast: the prompt is empty; nothing was sent\n",
    });
  });
});

test("watch shows a prompt where its answer begins, not where it was queued", async () => {
  await openScriptedSession(shared.gatewayFixture, "w");
  const gate = join(shared.gatewayFixture.home, "gate");
  await acp("prompt", "w", "--no-wait", scriptedPrompt({ say: "first" }, { wait: gate }, { say: " done" }));
  await acp("prompt", "w", "--no-wait", "second");
  const { stdout: third } = await acp("prompt", "w", "--no-wait", "third");
  await acp("cancel", "w", "--turn", third.trim());
  await writeFile(gate, "");
  await acp("prompt", "w", "fourth");
  await acp("close", "w");
  const { stdout, stderr } = await acp("watch", "w");
  expect(stdout.replace(/^> \[.*/, "> first")).toBe(
    ["> first", "first done", "> second", "second", "> fourth", "fourth"].join("\n\n").concat("\n"),
  );
  expect(stderr).toContain("the turn is cancelled; its prompt was: third\n");
});

describe("an agent that sends control characters", () => {
  const EVIL = "a\u001b[2J\u001b]0;owned\u0007b\u009b31mc\u202ed\u0007\re";
  const HOSTILE = scriptedPrompt(
    { think: EVIL },
    { say: EVIL },
    { say: "\n\u001b" },
    { say: "[31mred\r" },
    { say: "\nend" },
    toolStep("\u001b[1m", "pen\u001bding", { title: EVIL, kind: EVIL }),
    planStep([EVIL, "in_progress"]),
  );
  // oxlint-disable-next-line no-control-regex -- that is what must not be there
  const CONTROL = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/;

  test.each([["text"], ["json"], ["quiet"]])(
    "cannot control the terminal with the format %s",
    async (format) => {
      const { code, stdout, stderr } = await acp("prompt", "r", "--format", format, HOSTILE);
      expect(stdout).not.toMatch(CONTROL);
      expect(stderr).toBe("");
      expect(code).toBe(0);
      if (format === "text") expect(stdout).toContain("\nred\nend\n");
      if (format === "json") expect(stdout.split("\n").some((line) => saidIn(line) === EVIL)).toBe(true);
    },
  );

  test("cannot control the terminal through its stored text", async () => {
    for (const words of [
      ["history", "r"],
      ["show", "r"],
      ["history", "r", "--json"],
      ["permissions", "list"],
    ])
      expect((await acp(...words)).stdout).not.toMatch(CONTROL);
  });
});

function saidIn(line: string): unknown {
  if (line === "") return null;
  const { data } = JSON.parse(line) as { data: { content?: { text?: string } } };
  return data.content?.text;
}
