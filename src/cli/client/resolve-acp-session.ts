import type { GatewayClient } from "../../api/client.js";
import type { ResponseOf } from "../../api/contract.js";
import { NotFound } from "../../errors.js";
import { sessionToken } from "./requester.js";

/** The full name of a session: sessions that a session creates have its key as a prefix. */
export function qualifiedSessionName(name: string): string {
  const mine = process.env["HOLDFAST_SESSION_KEY"];
  return sessionToken() === null || mine === undefined || mine === "" ? name : `${mine}/${name}`;
}

export type AcpSessionSummary = ResponseOf<"acpList">["sessions"][number];

/** Finds a session by its id, by its name, or by an unambiguous beginning of either; open sessions first. In a session, a name means its own child first. */
export async function resolveAcpSession(
  client: Pick<GatewayClient, "acpList">,
  wanted: string,
): Promise<AcpSessionSummary> {
  const name = wanted.slice(0, MAX_NAME_CHARS);
  const [found] = name === "" ? [] : (await client.acpList({ query: { name } })).sessions;
  if (found === undefined) throw new NotFound(`ACP session ${name}; \`holdfast acp list --all\` lists all`);
  return found;
}

/** More than the length of any name. */
const MAX_NAME_CHARS = 200;
