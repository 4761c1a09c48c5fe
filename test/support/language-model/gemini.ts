import { jsonObjects, type ModelDialect, type ModelReply, parseTool, serverSentEvent } from "./dialect.js";

/** Gemini's generateContent. */
export const generateContent: ModelDialect = {
  matches: (path) => /:(?:streamGenerate|generate)Content$/.test(path),
  read(body, path) {
    const tools = jsonObjects(body["tools"])
      .flatMap(({ functionDeclarations }) => jsonObjects(functionDeclarations))
      .map(({ name, parametersJsonSchema, parameters }) =>
        parseTool(name, parametersJsonSchema ?? parameters),
      );
    const last = jsonObjects(jsonObjects(body["contents"]).at(-1)?.["parts"]);
    const afterTool = last.some((part) => "functionResponse" in part);
    return {
      kind: tools.length === 0 ? "aside" : afterTool ? "tool-result" : "prompt",
      streamed: path.includes(":streamGenerate"),
      tools,
    };
  },
  stream: (reply) => [serverSentEvent(generatedContent(reply))],
  whole: generatedContent,
};

function generatedContent(reply: ModelReply): object {
  const part = "text" in reply ? { text: reply.text } : { functionCall: reply.call };
  return {
    candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
    modelVersion: "fake",
  };
}
