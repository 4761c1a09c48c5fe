import { fileURLToPath } from "node:url";
import type { RequestOf } from "../../../src/api/contract.js";
import type { BackgroundGateway } from "../cli/background-gateway.js";

const scriptPath = fileURLToPath(new URL("programs/scripted-agent.mjs", import.meta.url));

/** A command line for `--agent-command`. */
export const SCRIPTED_AGENT = `'${process.execPath}' '${scriptPath}'`;

/** A session with a scripted agent. */
export async function openScriptedSession(
  gatewayFixture: BackgroundGateway,
  key: string,
  body: Partial<RequestOf<"acpSpawn">["body"]> = {},
): Promise<string> {
  const client = await gatewayFixture.client();
  const argv = [process.execPath, scriptPath];
  const { session } = await client.acpSpawn({ body: { argv, cwd: gatewayFixture.home, key, ...body } });
  return session.sessionId;
}

type ScriptStep = Readonly<Record<string, unknown>>;

/** A prompt made of steps. */
export function scriptedPrompt(...all: readonly ScriptStep[]): string {
  return JSON.stringify(all);
}

export function toolStep(toolCallId: string, status: string, more: ScriptStep = {}): ScriptStep {
  const sessionUpdate = more["title"] === undefined ? "tool_call_update" : "tool_call";
  return { update: { sessionUpdate, toolCallId, status, ...more } };
}

export function planStep(...entries: readonly (readonly [content: string, status: string])[]): ScriptStep {
  const each = entries.map(([content, status]) => ({ content, status, priority: "medium" }));
  return { update: { sessionUpdate: "plan", entries: each } };
}
