import { BadInput } from "../../errors.js";
import { asArray, asBoolean, asObject, asString } from "../../text/parse-json.js";
import { queryAnchor } from "../one-shot-modes.js";
import type { PortEvidence } from "./evidence-types.js";
import { toIdentity } from "./processes.js";

export function requirePort(value: number): number {
  if (Number.isSafeInteger(value) && value > 0 && value < 65_536) return value;
  throw new BadInput("port", `${value} cannot be a TCP port; they go from 1 to 65535`);
}

/** Finds the processes that listen on a TCP port of this network namespace. */
export async function inspectPort(anchorPath: string, port: number): Promise<PortEvidence> {
  const query = `port ${requirePort(port)}\n`;
  const [answer] = await queryAnchor(anchorPath, ["inspect"], query, toPortEvidence, 1);
  return answer as PortEvidence;
}

function toPortEvidence(value: unknown): PortEvidence {
  const object = asObject(value);
  const holders = asArray(object["holders"]).map((item) => {
    const holder = asObject(item);
    return { identity: toIdentity(holder), command: asString(holder["command"]) };
  });
  return { open: asBoolean(object["open"]), holders };
}
