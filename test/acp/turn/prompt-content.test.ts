import { expect, test } from "vitest";
import { attachmentOf, supportedContent } from "../../../src/acp/turn/prompt-content.js";
import { defaults } from "../../../src/defaults.js";
import type { PromptContent } from "../../../src/model/acp/session-and-turn.js";

const agentWith = (promptCapabilities: object) => ({ agentCapabilities: { promptCapabilities } });
const image: PromptContent = {
  type: "image",
  mimeType: "image/png",
  data: "iVBORw0K",
  uri: "file:///srv/a%20b.png",
};
const audio: PromptContent = { type: "audio", mimeType: "audio/wav", data: "UklGRg==" };
const file: PromptContent = {
  type: "resource",
  resource: { uri: "file:///srv/notes.md", mimeType: "text/markdown", text: "grün" },
};
const link: PromptContent = { type: "resource_link", uri: "https://docs.example/a", name: "a" };

test("an agent that supports all of it gets it unchanged", () => {
  const all = [image, audio, file, link];
  const capabilities = agentWith({ image: true, audio: true, embeddedContext: true });
  expect(supportedContent(all, capabilities)).toEqual(all);
});

test.each([
  [image, "image"],
  [audio, "audio"],
])("an agent without support refuses %j", (part, name) => {
  for (const capabilities of [null, {}, agentWith({}), agentWith({ [name]: false })])
    expect(() => supportedContent([part], capabilities)).toThrow(
      `does not support ${name} in prompts; nothing`,
    );
});

test("a file becomes a link if the agent takes no embedded content; every agent takes links", () => {
  expect(supportedContent([file, link], null)).toEqual([
    { type: "resource_link", uri: "file:///srv/notes.md", name: "notes.md", mimeType: "text/markdown" },
    link,
  ]);
});

test("content beyond the limit is refused", () => {
  const large: PromptContent = { ...image, data: "A".repeat(defaults.acpContentBytes) };
  expect(supportedContent([large], agentWith({ image: true }))).toHaveLength(1);
  expect(() => supportedContent([large, file], agentWith({ image: true }))).toThrow("nothing was sent");
});

test("attachments are listed without their content", () => {
  expect([image, audio, file, link].map(attachmentOf)).toEqual([
    { type: "image", name: "a b.png", bytes: 8 },
    { type: "audio", name: "", bytes: 8 },
    { type: "resource", name: "notes.md", bytes: 5 },
    { type: "resource_link", name: "a", bytes: null },
  ]);
});
