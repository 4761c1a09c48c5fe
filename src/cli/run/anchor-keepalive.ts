import { join } from "node:path";
import type { AnchorLink, RunAddress } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import type { LocalState } from "../client/local-state.js";
import { readOwnFile } from "../../home/own-file.js";

/**
 * A connection of the client to the anchor of its run while no gateway is running. An anchor ends a task that has had
 * no owner for its owner-loss time; a client that starts the next gateway counts as an owner. It controls nothing, and
 * the higher epoch of the next gateway closes the connection.
 */
export class AnchorKeepalive implements AsyncDisposable {
  readonly #home: string;
  readonly #runId: string;
  #localState: LocalState | null = null;
  #link: AnchorLink | null = null;
  #unownedSince: number | null = null;

  constructor(home: string, runId: string) {
    this.#home = home;
    this.#runId = runId;
  }

  /** Time since the first call in which neither a gateway nor this connection owned the run. */
  unownedMs(): number {
    this.#unownedSince ??= performance.now();
    return performance.now() - this.#unownedSince;
  }

  /** A gateway owns the run again. */
  gatewayAttached(): void {
    this.#unownedSince = null;
  }

  /**
   * Attaches to the anchor if no gateway is alive. True: the run directory still exists, so it is worth starting a
   * gateway.
   */
  async keepAlive(): Promise<boolean> {
    if (this.#link !== null) return true;
    if (this.unownedMs() > defaults.callerHoldMs) return false;
    // Loaded here, so that other commands start faster.
    this.#localState ??= await (await import("../client/local-state.js")).openLocalState();
    if (this.#localState === null) return false;
    const { host } = this.#localState;
    const instanceId = (await readOwnFile(join(this.#home, "gateway-id"))).trim();
    const run = { instanceId, runId: this.#runId };
    const gateway = (await host.listInstances()).find((each) => each.instanceId === instanceId);
    // A live gateway attaches by itself; a newer epoch from here would lock it out.
    if (gateway?.alive === false) this.#link = await this.#attachAsOwner(host, run);
    return this.#link !== null || (await host.listRunIds(instanceId)).includes(this.#runId);
  }

  /** Null: no anchor answers, or the command was not executed yet and never will be. */
  async #attachAsOwner(host: LocalState["host"], run: RunAddress): Promise<AnchorLink | null> {
    const observer = await host.attach(run, 0);
    if (observer === null) return null;
    const { highestEpoch, phase } = observer.welcome;
    try {
      if (phase === "gated") return null;
      const link = await host.attach(run, highestEpoch + 1);
      let closed = false;
      link?.listen(({ type }) => {
        if (type !== "closed") return;
        closed = true;
        this.#link = null;
        // The time without an owner begins again.
        this.#unownedSince = null;
      });
      return closed ? null : link;
    } finally {
      observer.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#localState?.[Symbol.asyncDispose]();
  }
}
