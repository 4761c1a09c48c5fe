import type { EnsureSessionRequest } from "../../../src/acp/ensure-session.js";
import type { RequestedClientAccess } from "../../../src/config/client-access.js";
import type { AcpTurn } from "../../../src/model/acp/session-and-turn.js";
import { type AcpFixture, clientAgent } from "./acp-fixture.js";

/** A request; `unawaited`: the next is sent at once. */
export type ClientStep = readonly [method: string, params: object, how?: "unawaited"];

export const ALLOW_ALL_RULES = [{ effect: "allow" as const }];

export function spawnClientAgent(
  fixture: AcpFixture,
  client: RequestedClientAccess,
  more: Partial<EnsureSessionRequest> = {},
): Promise<string> {
  return fixture.spawn(clientAgent, { client, rules: ALLOW_ALL_RULES, ...more });
}

export function promptSteps(
  fixture: AcpFixture,
  session: string,
  ...steps: readonly ClientStep[]
): Promise<AcpTurn> {
  return fixture.prompt(session, JSON.stringify(steps));
}

/** The answers in order. */
export async function runSteps(fixture: AcpFixture, session: string, ...steps: readonly ClientStep[]) {
  return answersOf(fixture, await promptSteps(fixture, session, ...steps));
}

/** The answers in a turn, when it has ended. */
export async function answersOf(fixture: AcpFixture, turn: AcpTurn): Promise<Record<string, unknown>[]> {
  return parseAnswers(await fixture.waitForTurnEnd(turn));
}

export function parseAnswers({ text }: Pick<AcpTurn, "text">): Record<string, unknown>[] {
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}
