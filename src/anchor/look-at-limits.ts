import { AnchorUnusable } from "../errors.js";
import { runAnchorMode } from "./binary/run-mode.js";
import { asNullable, asOneOf, parseJson, asObject, asString } from "../text/parse-json.js";

/** How a limit would be set from here, and where; `how` null: nothing here has the controller. */
export interface LimitProbe {
  readonly controller: string;
  readonly how: "v2" | "v1" | "v2-refused" | "v1-refused" | null;
  readonly where: string | null;
}

/** Changes nothing. */
export async function probeLimits(anchorPath: string): Promise<readonly LimitProbe[]> {
  const lines = await runAnchorMode(anchorPath, ["limits"], "");
  return lines.map((line) => {
    const probe = parseJson(line, toLimitProbe);
    if (probe !== null) return probe;
    throw new AnchorUnusable(anchorPath, "`anchor limits` did not answer as agreed; nothing is known");
  });
}

function toLimitProbe(value: unknown): LimitProbe {
  const object = asObject(value);
  return {
    controller: asString(object["controller"]),
    how: asNullable((how) => asOneOf(["v2", "v1", "v2-refused", "v1-refused"], how), object["how"]),
    where: asNullable(asString, object["where"]),
  };
}
