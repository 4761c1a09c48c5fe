import type { AnchorHost, AnchorLink } from "../../anchor/host.js";
import { runConcurrently } from "../../async/semaphore.js";
import { defaults } from "../../defaults.js";
import type { RunCopy } from "../../store/local-copy/run-copy.js";
import { runAddressOf } from "../run/recorded-identity.js";

/**
 * Connects to an anchor as its owner while the store is unreachable, so that the anchor does not end the task for owner
 * loss. The epoch is not in the store; later claims take one above it. The link controls nothing. Null: no anchor
 * answers, or it has had a newer owner since the local copy was written.
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
    // Written before the anchor gets the epoch, for the next process of this instance. If that fails, only the next
    // process cannot keep the run alive.
    await localCopy.keep({ ...copy, anchorEpoch: epoch }).catch(() => undefined);
    return await host.attach(run, epoch);
  } finally {
    observer.close();
  }
}

/** Keeps an instance's runs alive while the store is unreachable. The next epoch of a run replaces its link. */
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

  /** Attaches to every open run of this instance that is not attended. Failures are tried again in the next call. */
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
