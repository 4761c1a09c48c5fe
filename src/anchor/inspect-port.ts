import { AnchorUnusable, BadInput } from "../errors.js";
import { runAnchorMode } from "./binary/run-mode.js";
import type { PortEvidence } from "./host.js";
import { toIdentity } from "./inspect/processes.js";
import { asArray, asBoolean, parseJson, asObject, asString } from "../text/parse-json.js";

export function requirePort(value: number): number {
  if (Number.isSafeInteger(value) && value > 0 && value < 65_536) return value;
  throw new BadInput("port", `${value} cannot be a TCP port; they go from 1 to 65535`);
}

/** Who listens on a TCP port of this network. */
export async function inspectPort(anchorPath: string, port: number): Promise<PortEvidence> {
  const [line = ""] = await runAnchorMode(anchorPath, ["inspect"], `port ${requirePort(port)}\n`);
  const answer = parseJson(line, toPortEvidence);
  if (answer !== null) return answer;
  throw new AnchorUnusable(anchorPath, "`anchor inspect` did not answer as agreed about a port");
}

function toPortEvidence(value: unknown): PortEvidence {
  const object = asObject(value);
  const holders = asArray(object["holders"]).map((item) => {
    const holder = asObject(item);
    return { identity: toIdentity(holder), command: asString(holder["command"]) };
  });
  return { open: asBoolean(object["open"]), holders };
}
