import type { ModelTool, ModelReply } from "../../support/language-model/dialect.js";

const SHELL_TOOL_NAMES = [
  "bash",
  "shell",
  "shell_command",
  "exec_command",
  "run_shell_command",
  "local_shell",
];

/** A call of whichever shell tool is offered, in the form it asks for. */
export function callShellTool(tools: readonly ModelTool[], command: string): ModelReply {
  const tool = tools.find(({ name }) => SHELL_TOOL_NAMES.includes(name));
  if (tool === undefined) return { text: `no shell among ${tools.map(({ name }) => name).join(", ")}` };
  const args: Record<string, unknown> = {};
  for (const name of tool.required) args[name] = "as asked";
  const field = "cmd" in tool.properties ? "cmd" : "command";
  const words = tool.properties[field]?.type === "array";
  args[field] = words ? ["/bin/sh", "-c", command] : command;
  return { call: { name: tool.name, args } };
}
