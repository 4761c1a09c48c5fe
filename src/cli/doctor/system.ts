import { boundaryElsewhere } from "../../anchor/inspect/tier.js";
import { checkAnchor } from "./anchor.js";
import { type Check, ok, warn } from "./check.js";
import { checkKernel } from "./kernel.js";

/** Checks what this operating system offers, which decides the guarantees of runs. */
export async function checkSystem(): Promise<Check[]> {
  if (process.platform === "linux") return checkKernel();
  const anchor = await checkAnchor();
  if (anchor.state === "bad") return [anchor];
  const level = anchor.state === "ok" ? "unique" : "handle";
  return [anchor, ...boundaryChecks(boundaryElsewhere(process.platform), level)];
}

type BoundaryElsewhere = ReturnType<typeof boundaryElsewhere>;

/** The guarantees of a boundary outside of Linux, and what is missing. */
export function boundaryChecks(boundary: BoundaryElsewhere, level: string): readonly Check[] {
  const tier = ok("tier", `runs started here get ${boundary}+launcher+${level}`);
  switch (boundary) {
    case "job":
      return [
        ok(
          "job",
          "every run gets its own Job Object: the system knows all its processes, and ends them together",
        ),
        tier,
      ];
    case "lineage":
      return [
        warn(
          "lineage",
          "this system has neither cgroups nor jobs: a process that leaves its session and parent between two scans is not seen",
          "run the command in a container or a Linux machine if it may hide processes",
        ),
        warn("run limits", "none is possible: this system cannot limit a run as a whole"),
        tier,
      ];
    case "group":
      return [
        warn(
          "group",
          "runs are bounded by process group and session: a process that starts a session of its own leaves its run",
          "use Linux, macOS or Windows",
        ),
        warn("run limits", "none is possible: this system cannot limit a run as a whole"),
        tier,
      ];
  }
}
