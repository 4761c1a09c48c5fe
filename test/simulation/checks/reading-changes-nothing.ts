import type { Cast } from "../cast.js";
import type { World } from "../world.js";

/** Invariant 6: looking, and reconciling a second time, change neither a row nor an event. */
export async function readingChangesNothing(cast: Cast): Promise<string | null> {
  // A lease may have expired in this very moment: what is to be said of that is said by the first look.
  await lookAround(cast);
  const before = snapshot(cast.world);
  await lookAround(cast);
  return snapshot(cast.world) === before ? null : "looking again changed the store";
}

async function lookAround({ awake, world }: Cast): Promise<void> {
  for (const { supervisor } of awake) {
    void supervisor.listRuns().catch(() => undefined);
    void supervisor.listEvents({}).catch(() => undefined);
    void supervisor.getRun("no such run").catch(() => undefined);
    void supervisor.reconcile().catch(() => undefined);
  }
  await world.scheduler.deliverAll();
}

/** Renewing a lease is no change of what is recorded. */
function snapshot({ database }: World): string {
  const rows = [...database.records.values()].map((record) => ({ ...record, leaseExpiresAt: 0 }));
  return JSON.stringify([rows, database.events.length]);
}
