import type { ClientCapabilities, Implementation, InitializeResponse } from "@agentclientprotocol/sdk";
import { defaults } from "../../defaults.js";
import { AcpClosed } from "../../errors.js";
import type { AcpConnection } from "./connection.js";

/** The one version that is spoken. Its successor is a draft without some of what we use. */
const PROTOCOL_VERSION = 1;

/** No file system and no terminals unless somebody has configured them: agents behave worse where they are offered. */
const NO_CAPABILITIES: ClientCapabilities = {
  fs: { readTextFile: false, writeTextFile: false },
  terminal: false,
};

/** Strict: some agents answer a version they were not asked for, and would then speak it. */
export async function initialize(
  connection: AcpConnection,
  clientInfo: Implementation,
  {
    clientCapabilities = NO_CAPABILITIES,
    deadlineMs = defaults.acpInitializeMs,
  }: { readonly clientCapabilities?: ClientCapabilities; readonly deadlineMs?: number } = {},
): Promise<InitializeResponse> {
  const answer = await connection.request(
    "initialize",
    { protocolVersion: PROTOCOL_VERSION, clientInfo, clientCapabilities },
    { deadlineMs, fatal: true },
  );
  if (answer.protocolVersion === PROTOCOL_VERSION) return answer;
  const why = `it speaks version ${answer.protocolVersion} of the protocol, and was asked for ${PROTOCOL_VERSION}`;
  connection.close("wrong-version", why);
  throw new AcpClosed("wrong-version", why);
}
