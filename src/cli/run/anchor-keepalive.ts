import { join } from "node:path";
import type { AnchorLink, RunAddress } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import type { LocalState } from "../client/local-state.js";
import { readOwnFile } from "../../home/own-file.js";

/**
 * The caller's own connection to the anchor of its run, for the time without a gateway. An anchor ends a task that has
 * had no owner for its owner-loss time; a caller that is starting the next gateway counts as an owner meanwhile. It
 * steers nothing, and the next gateway's higher epoch closes the connection.
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

  /** Time since the first call in which neither a gateway nor this hold owned the run. */
  unownedMs(): number {
    this.#unownedSince ??= performance.now();
    return performance.now() - this.#unownedSince;
  }

  /** A gateway holds the run and its caller again. */
  gatewayAttached(): void {
    this.#unownedSince = null;
  }

  /**
   * Hold the anchor if no gateway is alive. True while the caller should keep trying to start one: the run
   * directory still exists.
   */
  async keepAlive(): Promise<boolean> {
    if (this.#link !== null) return true;
    if (this.unownedMs() > defaults.callerHoldMs) return false;
    // Loaded only where it is needed: every command would wait for it.
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
        // What the run left is tried for from now on.
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
