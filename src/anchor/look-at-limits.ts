import { AnchorUnusable } from "../errors.js";
import { askAnchor } from "./ask.js";
import { nullable, oneOf, parseShape, record, string } from "./shape.js";

/** How a limit would be set from here, and where; `how` null: nothing here has the controller. */
export interface LimitPlace {
  readonly controller: string;
  readonly how: "v2" | "v1" | "v2-refused" | "v1-refused" | null;
  readonly where: string | null;
}

/** Changes nothing. */
export async function lookAtLimits(anchorPath: string): Promise<readonly LimitPlace[]> {
  const lines = await askAnchor(anchorPath, ["limits"], "");
  return lines.map((line) => {
    const place = parseShape(line, toPlace);
    if (place !== null) return place;
    throw new AnchorUnusable(anchorPath, "`anchor limits` did not answer as agreed; nothing is known");
  });
}

function toPlace(value: unknown): LimitPlace {
  const facts = record(value);
  return {
    controller: string(facts["controller"]),
    how: nullable((how) => oneOf(["v2", "v1", "v2-refused", "v1-refused"], how), facts["how"]),
    where: nullable(string, facts["where"]),
  };
}
