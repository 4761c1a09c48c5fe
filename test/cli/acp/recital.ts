import { fileURLToPath } from "node:url";
import type { AskedOf } from "../../../src/gateway/contract/contract.js";
import type { Resident } from "../resident.js";

const agent = fileURLToPath(new URL("../../acp/agents/recite.mjs", import.meta.url));

/** A command line for `--agent-command`. */
export const RECITE = `'${process.execPath}' '${agent}'`;

/** A session whose agent does what it is told. */
export async function openRecital(
  resident: Resident,
  key: string,
  body: Partial<AskedOf<"acpSpawn">["body"]> = {},
): Promise<string> {
  const client = await resident.client();
  const argv = [process.execPath, agent];
  const { session } = await client.acpSpawn({ body: { argv, cwd: resident.home, key, ...body } });
  return session.sessionId;
}

type Step = Readonly<Record<string, unknown>>;

/** A prompt that says what is to be done. */
export function steps(...all: readonly Step[]): string {
  return JSON.stringify(all);
}

export function tool(toolCallId: string, status: string, more: Step = {}): Step {
  const sessionUpdate = more["title"] === undefined ? "tool_call_update" : "tool_call";
  return { update: { sessionUpdate, toolCallId, status, ...more } };
}

export function plan(...entries: readonly (readonly [content: string, status: string])[]): Step {
  const each = entries.map(([content, status]) => ({ content, status, priority: "medium" }));
  return { update: { sessionUpdate: "plan", entries: each } };
}
