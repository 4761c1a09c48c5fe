import type { AnchorLink } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import { StaleEpoch } from "../errors.js";
import type { Lease } from "../store/store.js";
import type { Context } from "./context.js";

export type TakenUp =
  | { readonly kind: "attached"; readonly link: AnchorLink; readonly lease: Lease }
  /** No anchor listens. It has finished, or is dead. */
  | { readonly kind: "silent" }
  /** It listens but does not answer, or not as agreed. */
  | { readonly kind: "unreachable"; readonly error: unknown }
  /** It answers, but the store does not: the run can be watched and stopped, not steered. */
  | { readonly kind: "unwritable"; readonly observer: AnchorLink; readonly error: unknown }
  /** Somebody else owns it. */
  | { readonly kind: "replaced" }
  /** The record says it has ended, the anchor says it has not. */
  | { readonly kind: "ended-elsewhere"; readonly observer: AnchorLink };

/**
 * Become the owner of a run whose connection is gone. The new epoch is above everything store and anchor have seen,
 * and it is committed before the anchor hears of it: an epoch that exists nowhere but in a dead process would lock
 * every later owner out.
 */
export async function takeUp(context: Context, runId: string, knownEpoch: number): Promise<TakenUp> {
  const { host, store, instanceId } = context;
  let observer: AnchorLink | null;
  try {
    observer = await host.attach(runId, 0);
  } catch (error) {
    return { kind: "unreachable", error };
  }
  if (observer === null) return { kind: "silent" };

  let lease: Lease | null;
  try {
    const epoch = Math.max(knownEpoch, observer.welcome.highestEpoch) + 1;
    lease = await store.reclaimLease(runId, instanceId, epoch, defaults.leaseMs);
    if (lease === null && (await store.getRun(runId))?.state === "exited")
      return { kind: "ended-elsewhere", observer };
  } catch (error) {
    return { kind: "unwritable", observer, error };
  }
  try {
    if (lease === null) return { kind: "replaced" };
    const link = await host.attach(runId, lease.epoch);
    return link === null ? { kind: "silent" } : { kind: "attached", link, lease };
  } catch (error) {
    return error instanceof StaleEpoch ? { kind: "replaced" } : { kind: "unreachable", error };
  } finally {
    observer.close();
  }
}
