import { BadInput, NotFound } from "../../errors.js";
import type { GatewayClient } from "../../gateway/client.js";
import type { AnswerOf } from "../../gateway/contract/contract.js";

export type Session = AnswerOf<"acpList">["sessions"][number];

/** As many as a list can hold. */
const LISTED = 1_000;
/** As many as are named when a beginning is not enough. */
const NAMED = 5;

/** By id, by name, or by a beginning of either that only one has; open ones first. */
export async function pickSession(client: Pick<GatewayClient, "acpList">, wanted: string): Promise<Session> {
  const among = async (query: { readonly all?: "1" }): Promise<Session | null> =>
    pickOf(wanted, (await client.acpList({ query: { ...query, limit: LISTED } })).sessions);
  const found = wanted === "" ? null : ((await among({})) ?? (await among({ all: "1" })));
  if (found === null) throw new NotFound(`ACP session ${wanted.slice(0, 200)}`);
  return found;
}

/** The newest of those that have the very name; else the only one that begins so. Null: there is none. */
export function pickOf(wanted: string, sessions: readonly Session[]): Session | null {
  const exact = sessions.find(({ sessionId, key }) => sessionId === wanted || key === wanted);
  if (exact !== undefined) return exact;
  const begin = sessions.filter(
    ({ sessionId, key }) =>
      key.startsWith(wanted) || sessionId.startsWith(wanted) || sessionId.startsWith(`ses_${wanted}`),
  );
  if (begin.length < 2) return begin[0] ?? null;
  const named = begin.slice(0, NAMED).map(({ sessionId, key }) => `${key} (${sessionId})`);
  const more = begin.length > NAMED ? ", …" : "";
  throw new BadInput(
    "session",
    `${JSON.stringify(wanted)} is the beginning of several ACP sessions: ${named.join(", ")}${more}`,
  );
}
