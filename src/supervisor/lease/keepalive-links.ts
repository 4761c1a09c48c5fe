import type { AnchorHost, AnchorLink } from "../../anchor/host.js";
import { runConcurrently } from "../../async/semaphore.js";
import { defaults } from "../../defaults.js";
import type { RunCopy } from "../../store/local-copy/run-copy.js";
import { runAddressOf } from "../run/recorded-identity.js";

/**
 * To a task's anchor, a supervisor that cannot reach the store must not look like one that is gone: it would end the
 * task. So it stays connected as the owner, under an epoch that the store will hear of later; claims go above whatever
 * an anchor has seen. Only where nobody else has been since the store was last told, and to steer nothing. Null: no
 * anchor answers, or it has a newer owner.
 */
export async function attachKeepalive(
  host: Pick<AnchorHost, "attach">,
  localCopy: RunCopy,
  runId: string,
): Promise<AnchorLink | null> {
  const copy = await localCopy.get(runId);
  if (copy === null) return null;
  const run = runAddressOf(copy.record);
  const observer = await host.attach(run, 0);
  if (observer === null) return null;
  try {
    const { highestEpoch } = observer.welcome;
    if (highestEpoch > copy.anchorEpoch) return null;
    const epoch = copy.anchorEpoch + 1;
    // Before its anchor hears of it: should this process end, the next one knows that it was here. Where that cannot be
    // written down, the next one cannot hold it; that is no reason to let go of it now.
    await localCopy.keep({ ...copy, anchorEpoch: epoch }).catch(() => undefined);
    return await host.attach(run, epoch);
  } finally {
    observer.close();
  }
}

/** An instance's runs, held while the store is away. A run that is taken up afterwards ends its hold by its new epoch. */
export class KeepaliveLinks {
  readonly #host: Pick<AnchorHost, "attach">;
  readonly #localCopy: RunCopy;
  readonly #instanceId: string;
  readonly #attached = new Set<string>();

  constructor(host: Pick<AnchorHost, "attach">, localCopy: RunCopy, instanceId: string) {
    this.#host = host;
    this.#localCopy = localCopy;
    this.#instanceId = instanceId;
  }

  get size(): number {
    return this.#attached.size;
  }

  /** Every open run of this instance that is not `attended` otherwise. What cannot be held now is tried again next time. */
  async attachAll(isAttended: (runId: string) => boolean = () => false): Promise<void> {
    const runIds = await this.#localCopy.runIds().catch(() => []);
    const work = runIds
      .filter((runId) => !this.#attached.has(runId) && !isAttended(runId))
      .map((runId) => () => this.#attach(runId).catch(() => undefined));
    await runConcurrently(defaults.recoverAtOnce, work);
  }

  async #attach(runId: string): Promise<void> {
    const record = (await this.#localCopy.get(runId))?.record ?? null;
    if (record === null || record.state === "exited" || record.ownerInstanceId !== this.#instanceId) return;
    const link = await attachKeepalive(this.#host, this.#localCopy, runId);
    if (link === null) return;
    this.#attached.add(runId);
    link.listen((event) => {
      if (event.type === "closed") this.#attached.delete(runId);
    });
  }
}
