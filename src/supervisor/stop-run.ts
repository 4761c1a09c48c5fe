import type { AnchorExit, AnchorLink, StopRequest } from "../anchor/host.js";
import type { Survivor } from "../model/process.js";

/** How a stop went: it has ended, or who is still there. Never "requested". */
export type StopAnswer =
  /** Proven empty, unless somebody gave up on it meanwhile: the exit says. */
  | { readonly kind: "ended"; readonly exit: AnchorExit }
  | { readonly kind: "survivors"; readonly survivors: readonly Survivor[] }
  /** The anchor said no more; its directory may know. */
  | { readonly kind: "silent" };

/** Ask a run's anchor to end it, by the key in its directory, and see it through. The link is closed afterwards. */
export async function stopRun(link: AnchorLink, stop: StopRequest): Promise<StopAnswer> {
  try {
    return await new Promise<StopAnswer>((resolve) => {
      link.listen((event) => {
        if (event.type === "exited") resolve({ kind: "ended", exit: event.exit });
        if (event.type === "survivors" && event.survivors.length > 0)
          resolve({ kind: "survivors", survivors: event.survivors });
        if (event.type === "closed") resolve({ kind: "silent" });
      });
      link.stop(stop);
    });
  } finally {
    link.close();
  }
}
