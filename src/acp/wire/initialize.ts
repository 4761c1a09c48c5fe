import type { ClientCapabilities, Implementation, InitializeResponse } from "@agentclientprotocol/sdk";
import { NO_CLIENT_ACCESS, toClientCapabilities } from "../../config/client-access.js";
import { defaults } from "../../defaults.js";
import { AcpClosed } from "../../errors.js";
import type { AcpConnection } from "./connection.js";

/** The only supported version. Its successor is a draft that lacks some features in use here. */
const PROTOCOL_VERSION = 1;

/** Refuses any other version in the answer: some agents answer with the version that they will speak. */
export async function initialize(
  connection: AcpConnection,
  clientInfo: Implementation,
  {
    clientCapabilities = toClientCapabilities(NO_CLIENT_ACCESS),
    deadlineMs = defaults.acpInitializeMs,
  }: { readonly clientCapabilities?: ClientCapabilities; readonly deadlineMs?: number } = {},
): Promise<InitializeResponse> {
  const answer = await connection.request(
    "initialize",
    { protocolVersion: PROTOCOL_VERSION, clientInfo, clientCapabilities },
    { deadlineMs, fatal: true },
  );
  if (answer.protocolVersion === PROTOCOL_VERSION) return answer;
  const why = `it speaks version ${answer.protocolVersion} of the protocol instead of ${PROTOCOL_VERSION}`;
  connection.close("wrong-version", why);
  throw new AcpClosed("wrong-version", why);
}
