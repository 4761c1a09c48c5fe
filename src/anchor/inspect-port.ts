import { AnchorUnusable, BadInput } from "../errors.js";
import { askAnchor } from "./ask.js";
import type { PortEvidence } from "./host.js";
import { identity } from "./inspect.js";
import { array, boolean, parseShape, record, string } from "./shape.js";

export function mustBePort(value: number): number {
  if (Number.isSafeInteger(value) && value > 0 && value < 65_536) return value;
  throw new BadInput("port", `${value} cannot be a TCP port; they go from 1 to 65535`);
}

/** Who listens on a TCP port of this network. */
export async function inspectPort(anchorPath: string, port: number): Promise<PortEvidence> {
  const [line = ""] = await askAnchor(anchorPath, ["inspect"], `port ${mustBePort(port)}\n`);
  const answer = parseShape(line, evidence);
  if (answer !== null) return answer;
  throw new AnchorUnusable(anchorPath, "`anchor inspect` did not answer as agreed about a port");
}

function evidence(value: unknown): PortEvidence {
  const facts = record(value);
  const holders = array(facts["holders"]).map((item) => {
    const holder = record(item);
    return { identity: identity(holder), command: string(holder["command"]) };
  });
  return { open: boolean(facts["open"]), holders };
}
