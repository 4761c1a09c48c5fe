import { boundaryElsewhere } from "../../anchor/inspect/boundary-and-tier.js";
import { checkAnchor } from "./anchor.js";
import { type Check, ok, warn } from "./check-result.js";

/** The anchor, and what bounds a run, which decides its guarantees. */
export async function checkBoundaryOutsideLinux(): Promise<Check[]> {
  const anchor = await checkAnchor();
  if (anchor.state === "bad") return [anchor];
  const boundary = boundaryElsewhere(process.platform);
  const level = boundary === "group" ? "number" : anchor.state === "ok" ? "unique" : "handle";
  return [anchor, ...boundaryChecks(boundary, level)];
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
          "this system has neither cgroups nor jobs: a process that leaves its session and parent between two scans may not be found; the run then ends unproven",
          "run the command in a container or a Linux machine if it may hide processes",
        ),
        warn("run limits", "none is possible: this system cannot limit a run as a whole"),
        tier,
      ];
    case "group":
      return [
        warn(
          "group",
          "runs are bounded by their process group: a process that starts a session or group of its own leaves its run, so no end is proven",
          "use Linux, macOS or Windows",
        ),
        warn("run limits", "none is possible: this system cannot limit a run as a whole"),
        tier,
      ];
  }
}
