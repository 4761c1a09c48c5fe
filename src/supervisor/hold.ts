import type { AnchorHost, AnchorLink } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import type { Ledger } from "../store/ledger/ledger.js";
import { atMost } from "./at-most.js";
import { addressOf } from "./reconcile/look.js";

/**
 * To a task's anchor, a supervisor that cannot reach the store must not look like one that is gone: it would end the
 * task. So it stays connected as the owner, under an epoch that the store will hear of later; claims go above whatever
 * an anchor has seen. Only where nobody else has been since the store was last told, and to steer nothing. Null: no
 * anchor answers, or it has a newer owner.
 */
export async function hold(
  host: Pick<AnchorHost, "attach">,
  ledger: Ledger,
  runId: string,
): Promise<AnchorLink | null> {
  const told = await ledger.get(runId);
  if (told === null) return null;
  const run = addressOf(told.record);
  const observer = await host.attach(run, 0);
  if (observer === null) return null;
  try {
    const { highestEpoch } = observer.welcome;
    if (highestEpoch > told.anchorEpoch) return null;
    const epoch = told.anchorEpoch + 1;
    // Before its anchor hears of it: should this process end, the next one knows that it was here. Where that cannot be
    // written down, the next one cannot hold it; that is no reason to let go of it now.
    await ledger.keep({ ...told, anchorEpoch: epoch }).catch(() => undefined);
    return await host.attach(run, epoch);
  } finally {
    observer.close();
  }
}

/** An instance's runs, held while the store is away. A run that is taken up afterwards ends its hold by its new epoch. */
export class Holds {
  readonly #host: Pick<AnchorHost, "attach">;
  readonly #ledger: Ledger;
  readonly #instanceId: string;
  readonly #held = new Set<string>();

  constructor(host: Pick<AnchorHost, "attach">, ledger: Ledger, instanceId: string) {
    this.#host = host;
    this.#ledger = ledger;
    this.#instanceId = instanceId;
  }

  get size(): number {
    return this.#held.size;
  }

  /** Every open run of this instance that is not `attended` otherwise. What cannot be held now is tried again next time. */
  async holdAll(attended: (runId: string) => boolean = () => false): Promise<void> {
    const runIds = await this.#ledger.runIds().catch(() => []);
    const work = runIds
      .filter((runId) => !this.#held.has(runId) && !attended(runId))
      .map((runId) => () => this.#hold(runId).catch(() => undefined));
    await atMost(defaults.recoverAtOnce, work);
  }

  async #hold(runId: string): Promise<void> {
    const record = (await this.#ledger.get(runId))?.record ?? null;
    if (record === null || record.state === "exited" || record.ownerInstanceId !== this.#instanceId) return;
    const link = await hold(this.#host, this.#ledger, runId);
    if (link === null) return;
    this.#held.add(runId);
    link.listen((event) => {
      if (event.type === "closed") this.#held.delete(runId);
    });
  }
}
