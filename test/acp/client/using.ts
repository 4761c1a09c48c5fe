import { fileURLToPath } from "node:url";
import type { EnsureRequest } from "../../../src/acp/controller.js";
import type { AskedOffer } from "../../../src/acp/client/offer.js";
import type { AcpTurn } from "../../../src/store/acp-record.js";
import type { Controlled } from "../controlled.js";

export const clientAgent: readonly string[] = [
  process.execPath,
  fileURLToPath(new URL("../agents/client.mjs", import.meta.url)),
];

/** A request, and whether the next is sent at once. */
export type Step = readonly [method: string, params: object, how?: "unawaited"];

export const ALLOW = [{ effect: "allow" as const }];

export function user(house: Controlled, client: AskedOffer, more: Partial<EnsureRequest> = {}) {
  return house.spawn(clientAgent, { client, rules: ALLOW, ...more });
}

/** Its answers, in order. */
export async function use(house: Controlled, session: string, ...steps: readonly Step[]) {
  return answersOf(await house.turn(session, JSON.stringify(steps)));
}

export function answersOf({ text }: Pick<AcpTurn, "text">): Record<string, unknown>[] {
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}
