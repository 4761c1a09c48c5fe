import { type Dialect, event, listOf, type Reply, toolOf } from "./dialect.js";

/** Gemini's generateContent. */
export const generateContent: Dialect = {
  matches: (path) => /:(?:streamGenerate|generate)Content$/.test(path),
  read(body, path) {
    const tools = listOf(body["tools"])
      .flatMap(({ functionDeclarations }) => listOf(functionDeclarations))
      .map(({ name, parametersJsonSchema, parameters }) => toolOf(name, parametersJsonSchema ?? parameters));
    const last = listOf(listOf(body["contents"]).at(-1)?.["parts"]);
    const afterTool = last.some((part) => "functionResponse" in part);
    return {
      kind: tools.length === 0 ? "aside" : afterTool ? "tool-result" : "prompt",
      streamed: path.includes(":streamGenerate"),
      tools,
    };
  },
  stream: (reply) => [event(whole(reply))],
  whole,
};

function whole(reply: Reply): object {
  const part = "text" in reply ? { text: reply.text } : { functionCall: reply.call };
  return {
    candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
    modelVersion: "fake",
  };
}
