import { expect, test } from "vitest";
import { digestInput } from "../../../src/acp/turn/tool-input-digest.js";
import { TurnSummary } from "../../../src/acp/turn/turn-summary.js";
import { defaults } from "../../../src/defaults.js";

test("ids, descriptions and the order of members do not change the digest of an input", () => {
  const digest = digestInput({ command: "ls", args: ["-l", { a: 1, b: 2 }] });
  expect(digest).toMatch(/^[0-9a-f]{64}$/);
  expect(digestInput({ call_id: "c7", args: ["-l", { b: 2, a: 1 }], cwd: "/x", command: "ls" })).toBe(digest);
});

test("different commands have different digests, in whatever member and form they are", () => {
  const inputs = [
    ...["ls", "rm", "", ["ls"], ["ls", ""], ["l", "s"], [["ls"]], { ls: 1 }, [{ ls: 1 }], [["ls", 1]]].map(
      (command) => ({ command }),
    ),
    ...["args", "cmd", "code", "commands", "script"].map((name) => ({ [name]: "ls" })),
    { command: "ls", args: [] },
    { command: "ls", commands: ["ls"] },
  ];
  const digests = inputs.map(digestInput);
  expect(digests).not.toContain(null);
  expect(new Set(digests).size).toBe(inputs.length);
});

test("an input that does not name what is executed has no digest", () => {
  for (const input of [
    undefined,
    null,
    "ls",
    ["ls"],
    {},
    { path: "/x" },
    { command: null, code: 7, args: true },
  ])
    expect(digestInput(input)).toBeNull();
});

test("a turn knows the newest input of each tool call that it keeps", () => {
  const turn = new TurnSummary();
  const apply = (toolCallId: string, rawInput?: object): void =>
    turn.apply({ update: { sessionUpdate: "tool_call_update", toolCallId, rawInput } });
  apply("t1", { command: "r" });
  apply("t1", { command: "rm" });
  apply("t1", { description: "removes" });
  apply("t1");
  apply("t2", { path: "/x" });
  expect(turn.tool("t1")?.inputDigest).toBe(digestInput({ command: "rm" }));
  expect(turn.tool("t2")).toMatchObject({ id: "t2", inputDigest: null });
  expect(turn.tool("t3")).toBeNull();
  expect(turn.tools[0]).not.toHaveProperty("inputDigest");
  for (let more = 0; more < defaults.acpToolCalls; more++) apply(`more${more}`);
  expect(turn.tool("t1")).toBeNull();
  apply("t1");
  expect(turn.tool("t1")?.inputDigest).toBeNull();
});
