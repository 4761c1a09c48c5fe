import type { Cast } from "../cast.js";
import type { World } from "../world.js";

/** Invariant 6: looking, and reconciling what is settled, change neither a row nor an event. */
export async function readingChangesNothing(cast: Cast): Promise<string | null> {
  const { world } = cast;
  const before = snapshot(world);
  for (const { supervisor } of cast.awake) {
    void supervisor.listRuns().catch(() => undefined);
    void supervisor.listEvents({}).catch(() => undefined);
    void supervisor.getRun("no such run").catch(() => undefined);
    void supervisor.reconcile().catch(() => undefined);
  }
  await world.scheduler.deliverAll();
  return snapshot(world) === before ? null : "looking again changed the store";
}

/** Renewing a lease is no change of what is recorded. */
function snapshot({ database }: World): string {
  const rows = [...database.records.values()].map((record) => ({ ...record, leaseExpiresAt: 0 }));
  return JSON.stringify([rows, database.events.length]);
}
