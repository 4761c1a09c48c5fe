import type { Actors } from "../actors.js";
import type { SimulatedWorld } from "../world.js";

/** Invariant 6: looking, and reconciling a second time, change neither a row nor an event. */
export async function readingChangesNothing(actors: Actors): Promise<string | null> {
  // A lease may have expired in this very moment: what is to be said of that is said by the first look.
  await readEverything(actors);
  const before = snapshot(actors.world);
  await readEverything(actors);
  return snapshot(actors.world) === before ? null : "looking again changed the store";
}

async function readEverything({ awake, world }: Actors): Promise<void> {
  for (const { supervisor } of awake) {
    void supervisor.listRuns().catch(() => undefined);
    void supervisor.listEvents({}).catch(() => undefined);
    void supervisor.getRun("no such run").catch(() => undefined);
    void supervisor.reconcile().catch(() => undefined);
  }
  await world.scheduler.deliverAll();
}

/** Renewing a lease is no change of what is recorded. */
function snapshot({ database }: SimulatedWorld): string {
  const rows = [...database.records.values()].map((record) => ({ ...record, leaseExpiresAt: 0 }));
  return JSON.stringify([rows, database.events.length]);
}
