import { join } from "node:path";
import type { AnchorLink, RunAddress } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import type { Observatory } from "../operator/observer.js";
import { readOwnFile } from "../../store/own-file.js";

/**
 * The caller's own connection to the anchor of its run, for the time without a gateway. An anchor ends a task that has
 * had no owner for its owner-loss time; a caller that is starting the next gateway counts as an owner meanwhile. It
 * steers nothing, and the next gateway's higher epoch closes the connection.
 */
export class AnchorHold implements AsyncDisposable {
  readonly #home: string;
  readonly #runId: string;
  #observatory: Observatory | null = null;
  #link: AnchorLink | null = null;
  #gapSince: number | null = null;

  constructor(home: string, runId: string) {
    this.#home = home;
    this.#runId = runId;
  }

  /** Time since the first call in which neither a gateway nor this hold owned the run. */
  gapMs(): number {
    this.#gapSince ??= performance.now();
    return performance.now() - this.#gapSince;
  }

  /** A gateway holds the run and its caller again. */
  attached(): void {
    this.#gapSince = null;
  }

  /**
   * Hold the anchor if no gateway is alive. True while the caller should keep trying to start one: the run
   * directory still exists.
   */
  async keep(): Promise<boolean> {
    if (this.#link !== null) return true;
    if (this.gapMs() > defaults.callerHoldMs) return false;
    // Loaded only where it is needed: every command would wait for it.
    this.#observatory ??= await (await import("../operator/observer.js")).openObservatory();
    if (this.#observatory === null) return false;
    const { host } = this.#observatory;
    const instanceId = (await readOwnFile(join(this.#home, "gateway-id"))).trim();
    const run = { instanceId, runId: this.#runId };
    const gateway = (await host.instances()).find((each) => each.instanceId === instanceId);
    // A live gateway attaches by itself; a newer epoch from here would lock it out.
    if (gateway?.alive === false) this.#link = await this.#own(host, run);
    return this.#link !== null || (await host.runIds(instanceId)).includes(this.#runId);
  }

  /** Null: no anchor answers, or the command was not executed yet and never will be. */
  async #own(host: Observatory["host"], run: RunAddress): Promise<AnchorLink | null> {
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
        this.#gapSince = null;
      });
      return closed ? null : link;
    } finally {
      observer.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#observatory?.[Symbol.asyncDispose]();
  }
}
