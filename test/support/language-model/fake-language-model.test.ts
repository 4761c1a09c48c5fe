import { expect, test } from "vitest";
import { FakeLanguageModel } from "./fake-language-model.js";

const schema = {
  type: "object",
  properties: { command: { type: "string" }, description: { type: "string" } },
  required: ["command", "description"],
};

/** The same conversation in each dialect. */
const dialects = {
  "chat completions": {
    path: "/v1/chat/completions",
    offer: { tools: [{ type: "function", function: { name: "bash", parameters: schema } }], stream: true },
    prompt: { messages: [{ role: "user", content: "go" }] },
    result: { messages: [{ role: "tool", tool_call_id: "call_1", content: "" }] },
  },
  responses: {
    path: "/v1/responses",
    offer: { tools: [{ type: "function", name: "shell_command", parameters: schema }], stream: true },
    prompt: { input: [{ type: "message", role: "user", content: [] }] },
    result: { input: [{ type: "function_call_output", call_id: "call_1", output: "" }] },
  },
  messages: {
    path: "/v1/messages",
    offer: { tools: [{ name: "Bash", input_schema: schema }], stream: true },
    prompt: { messages: [{ role: "user", content: [{ type: "text", text: "go" }] }] },
    result: { messages: [{ role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1" }] }] },
  },
  generateContent: {
    path: "/v1beta/models/fake:streamGenerateContent?alt=sse",
    offer: {
      tools: [{ functionDeclarations: [{ name: "run_shell_command", parametersJsonSchema: schema }] }],
    },
    prompt: { contents: [{ role: "user", parts: [{ text: "go" }] }] },
    result: { contents: [{ role: "user", parts: [{ functionResponse: { name: "x", response: {} } }] }] },
  },
};

async function ask(model: FakeLanguageModel, path: string, body: object): Promise<string> {
  const response = await fetch(`${model.url}${path}`, { method: "POST", body: JSON.stringify(body) });
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  const events = (await response.text()).match(/^data: .*$/gm) ?? [];
  expect(events.length).toBeGreaterThan(0);
  for (const event of events)
    if (event !== "data: [DONE]") expect(() => JSON.parse(event.slice(6)) as unknown).not.toThrow();
  return events.join("\n");
}

test.each(Object.entries(dialects))(
  "%s: a tool call with the command given, then the text",
  async (_, { path, offer, prompt, result }) => {
    await using model = await FakeLanguageModel.start();
    model.script.command = "echo hi";
    model.script.text = "All done.";
    expect(await ask(model, path, { ...offer, ...prompt })).toMatch(/echo hi/);
    expect(await ask(model, path, { ...offer, ...result })).toMatch(/All done\./);
    model.script.command = null;
    expect(await ask(model, path, { ...offer, ...prompt })).toMatch(/All done\./);
    expect(model.asked).toEqual(["prompt", "tool-result", "prompt"]);
  },
);

test.each(["chat completions", "responses", "messages"] as const)(
  "%s: every tool call has an id of its own",
  async (name) => {
    const { path, offer, prompt } = dialects[name];
    await using model = await FakeLanguageModel.start();
    model.script.command = "echo hi";
    const ids = async (): Promise<string[]> =>
      [...(await ask(model, path, { ...offer, ...prompt })).matchAll(/(?:call|toolu)_\d+/g)].map(String);
    const [first, second] = [await ids(), await ids()];
    expect(first.length).toBeGreaterThan(0);
    expect(second.filter((id) => first.includes(id))).toEqual([]);
  },
);

test("an answer can be held back until the test says so", async () => {
  await using model = await FakeLanguageModel.start();
  const { path, offer, prompt } = dialects.responses;
  const release = model.hold();
  let answered = false;
  const answer = ask(model, path, { ...offer, ...prompt }).then(() => {
    answered = true;
  });
  while (model.asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  expect(answered).toBe(false);
  release();
  await answer;
});

test("steps decide from the tools and the request, one each; a tool in a group is called in it", async () => {
  await using model = await FakeLanguageModel.start();
  const { path, prompt, result } = dialects.responses;
  const tool = { type: "function", name: "exec", parameters: schema };
  const offer = { tools: [{ type: "namespace", name: "mcp__x", tools: [tool] }], stream: true };
  model.script.steps = [
    ([found], body) => ({
      call: {
        name: found?.name ?? "",
        namespace: found?.namespace ?? "",
        args: { go: body.includes("user") },
      },
    }),
  ];
  const call = await ask(model, path, { ...offer, ...prompt });
  expect(call).toContain('"namespace":"mcp__x"');
  expect(call).toContain('"arguments":"{\\"go\\":true}"');
  expect(await ask(model, path, { ...offer, ...result })).toContain("Done.");
});
