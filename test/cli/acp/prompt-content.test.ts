import { mkdtempSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { mentionedPaths, readPromptContent, readPromptFile } from "../../../src/cli/acp/prompt-content.js";
import { featureAgent } from "../../support/agents/acp-fixture.js";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";

const shared = gatewayAndCliForFile();
const acp = (...args: readonly string[]) => shared.batchCli.holdfast("acp", ...args);
const PNG = Buffer.from("89504e470d0a1a0a", "hex");
const files = { image: "", notes: "", empty: "", large: "" };
const uri = (path: string): string => pathToFileURL(path).href;

beforeAll(() => {
  const directory = mkdtempSync(join(tmpdir(), "attachments-"));
  for (const [name, file] of Object.entries({ image: "a.png", notes: "n.md", empty: "e", large: "l.png" })) {
    files[name as keyof typeof files] = join(directory, file);
    writeFileSync(join(directory, file), "");
  }
  writeFileSync(files.image, PNG);
  writeFileSync(files.notes, "some notes");
  truncateSync(files.large, 4 * 1024 * 1024);
});

const command = (...options: readonly string[]): string =>
  featureAgent(...options)
    .map((word) => `'${word}'`)
    .join(" ");

test("words with @ name files, without punctuation at their end", () => {
  expect(mentionedPaths('see @a.txt, (@b) @"c d.txt" and ada@example.org, @a.txt @')).toEqual([
    "a.txt",
    "c d.txt",
  ]);
});

test("an agent gets the image, the file and the links before the text", async () => {
  const spawn = ["spawn", "--agent-command", command("image", "embeddedContext"), "--name", "all"];
  const text = `look at @${files.notes}, please`;
  const sent = await acp(
    ...spawn,
    ...["--image", files.image, "--file", files.notes, "--link", "https://docs.example/a", "--", text],
  );
  expect(sent).toMatchObject({ code: 0 });
  expect(JSON.parse(sent.stdout)).toEqual([
    { type: "image", mimeType: "image/png", data: PNG.toString("base64"), uri: uri(files.image) },
    { type: "resource", resource: { uri: uri(files.notes), mimeType: "text/markdown", text: "some notes" } },
    { type: "resource_link", uri: "https://docs.example/a", name: "a" },
    { type: "resource_link", uri: uri(files.notes), name: "n.md" },
    { type: "text", text },
  ]);
  expect((await acp("history", "all")).stdout).toContain("+ image a.png\n");
  const long = await acp("prompt", "all", "-f", files.notes);
  expect(JSON.parse(long.stdout)).toEqual([{ type: "text", text: "some notes" }]);
  expect(await acp("close", "all")).toMatchObject({ code: 0 });
});

test("an image is refused by an agent that takes none, and a session opened for it is closed", async () => {
  const spawn = ["spawn", "--agent-command", command(), "--name", "plain"];
  const refused = await acp(...spawn, "--image", files.image, "what is this?");
  expect(refused).toMatchObject({ code: 2, stdout: "" });
  expect(refused.stderr).toContain("the agent does not support image in prompts; nothing was sent");
  expect(await acp("prompt", "plain", "x")).toMatchObject({ code: 1 });
  expect(await acp(...spawn, "hello")).toMatchObject({ code: 0 });
  expect(await acp("prompt", "plain", "--image", files.image, "what is this?")).toMatchObject({ code: 2 });
  expect((await acp("history", "plain")).stdout).not.toContain("what is this?");
  const linked = await acp("prompt", "plain", "--file", files.notes, "read it");
  expect(JSON.parse(linked.stdout)).toMatchObject([{ type: "resource_link", uri: uri(files.notes) }, {}]);
  expect(await acp("close", "plain")).toMatchObject({ code: 0 });
});

test.each([
  [{ image: ["/no/such.png"] }, "/no/such.png cannot be read"],
  [{ image: ["notes.txt"] }, "known image format"],
  [{ audio: ["a.png"] }, "known audio format"],
  [{ link: ["nowhere"] }, "neither a URI nor a file"],
])("wrong content is refused: %j", (flags, why) => {
  expect(() => readPromptContent("", flags)).toThrow(why);
});

test("empty and large files are refused, also those that never end", () => {
  expect(() => readPromptContent("", { file: ["/dev/zero"] })).toThrow("at most 3145728 bytes can be sent");
  expect(() => readPromptContent("", { file: [files.empty] })).toThrow("is empty; nothing was sent");
  expect(() => readPromptContent("", { image: [files.large] })).toThrow("at most 3145728 bytes can be sent");
});

test("a prompt file is UTF-8 text, or stdin", async () => {
  writeFileSync(files.empty, Buffer.from("caf\xe9", "latin1"));
  expect(() => readPromptFile(files.empty)).toThrow("is not UTF-8 text");
  // Its stdin is empty.
  const piped = await shared.gatewayFixture.holdfast(
    ...["acp", "spawn", "--agent-command", command(), "--name", "piped", "-f", "-"],
  );
  expect(piped).toMatchObject({ code: 2 });
  expect(piped.stderr).toContain("the prompt is empty; nothing was sent");
});
