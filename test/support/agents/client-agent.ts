import { fileURLToPath } from "node:url";
import type { EnsureSessionRequest } from "../../../src/acp/ensure-session.js";
import type { RequestedClientAccess } from "../../../src/config/client-access.js";
import type { AcpTurn } from "../../../src/model/acp.js";
import type { AcpFixture } from "./acp-fixture.js";

export const clientAgent: readonly string[] = [
  process.execPath,
  fileURLToPath(new URL("programs/client-agent.mjs", import.meta.url)),
];

/** A request; `unawaited`: the next is sent at once. */
export type ClientStep = readonly [method: string, params: object, how?: "unawaited"];

export const ALLOW_ALL_RULES = [{ effect: "allow" as const }];

export function spawnClientAgent(
  fixture: AcpFixture,
  client: RequestedClientAccess,
  more: Partial<EnsureSessionRequest> = {},
) {
  return fixture.spawn(clientAgent, { client, rules: ALLOW_ALL_RULES, ...more });
}

/** The answers in order. */
export async function runSteps(fixture: AcpFixture, session: string, ...steps: readonly ClientStep[]) {
  return parseAnswers(await fixture.promptAndWait(session, JSON.stringify(steps)));
}

export function parseAnswers({ text }: Pick<AcpTurn, "text">): Record<string, unknown>[] {
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}
