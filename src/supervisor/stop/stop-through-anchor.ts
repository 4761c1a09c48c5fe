import type { AnchorExit, AnchorLink, RunAddress, StopRequest } from "../../anchor/host-interface.js";
import type { LiveProcesses } from "../../anchor/inspect/processes.js";
import { PROTOCOL } from "../../anchor/protocol/messages.js";
import type { Clock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import { newRequestId } from "../../model/ids.js";
import type { Survivor } from "../../model/process.js";
import { type StopHost, verifiableAnchor } from "../end/without-anchor.js";
import type { RecordedIdentity } from "../run/recorded-identity.js";

export interface StopDependencies {
  readonly host: StopHost;
  readonly clock: Clock;
}

interface StopTiming {
  readonly until: number;
  readonly answerMs: number;
  readonly onStopSent: () => void;
}

type AnchorStopResult =
  | { readonly kind: "ended"; readonly exit: AnchorExit }
  | { readonly kind: "survivors"; readonly survivors: readonly Survivor[] }
  /** The time is up, and the anchor still stops the run. Null: it did not list the live processes. */
  | { readonly kind: "late"; readonly alive: readonly Survivor[] | null }
  /** The anchor accepted the connection and did not answer in time. */
  | { readonly kind: "silent" }
  | { readonly kind: "no-anchor" };

/** A process that is alive while its run is being stopped. */
export function toSurvivor({ identity: { pid, startTime }, command }: LiveProcesses[number]): Survivor {
  return { pid, startTime, kind: "stopping", command };
}

function awaitExit(
  link: AnchorLink,
  clock: Clock,
  until: number,
  answerMs: number,
): Promise<AnchorStopResult> {
  return new Promise((resolve) => {
    const requestId = newRequestId();
    let answeredAt = clock.now();
    let statusSent = true;
    let over = false;
    const settle = (answer: AnchorStopResult): void => {
      over = true;
      resolve(answer);
    };
    link.listen((event) => {
      answeredAt = clock.now();
      statusSent = false;
      if (event.type === "exited") settle({ kind: "ended", exit: event.exit });
      if (event.type === "survivors" && event.survivors.length > 0)
        settle({ kind: "survivors", survivors: event.survivors });
      if (event.type === "members" && event.requestId === requestId)
        settle({ kind: "late", alive: event.processes.map(toSurvivor) });
      if (event.type === "closed") settle({ kind: "no-anchor" });
    });
    let membersRequested = false;
    const check = (): void => {
      if (over) return;
      const now = clock.now();
      if (now - answeredAt >= answerMs) return settle({ kind: "silent" });
      if (now >= until && (membersRequested || link.welcome.protocol < PROTOCOL))
        return settle({ kind: "late", alive: null });
      if (now >= until) {
        membersRequested = true;
        link.requestMembers(requestId);
      } else if (!statusSent && now - answeredAt >= answerMs / 2) {
        statusSent = true;
        link.requestStatus();
      }
      clock.setTimer(
        membersRequested ? defaults.anchorContinueMs : Math.min(answerMs / 4, until - now),
        check,
        {
          keepAlive: true,
        },
      );
    };
    check();
  });
}

export async function stopThroughAnchor(
  { host, clock }: StopDependencies,
  run: RunAddress,
  stop: StopRequest,
  { until, answerMs, onStopSent }: StopTiming,
): Promise<AnchorStopResult> {
  let link: AnchorLink | null;
  try {
    link = await host.attach(run, 0, answerMs);
  } catch {
    // The anchor refuses this key or protocol, or does not answer.
    return { kind: "silent" };
  }
  if (link === null) return { kind: "no-anchor" };
  try {
    const result = awaitExit(link, clock, until, answerMs);
    link.stop(stop);
    // A STOP after the end of the command is not answered; a STATUS request is.
    link.requestStatus();
    onStopSent();
    return await result;
  } finally {
    link.close();
  }
}

/** Sends SIGCONT to a live anchor, waits until it has created its socket again, and repeats the stop. */
export async function continueAndStop(
  dependencies: StopDependencies,
  recorded: RecordedIdentity,
  stop: StopRequest,
  timing: StopTiming,
): Promise<AnchorStopResult> {
  const { host, clock } = dependencies;
  const anchor = verifiableAnchor(host, recorded);
  if (anchor === null || (await host.continueAnchor(anchor)) !== null) return { kind: "silent" };
  for (let tries = 0; ; tries++) {
    const answer = await stopThroughAnchor(dependencies, recorded.run, stop, timing);
    if (answer.kind !== "no-anchor" || tries >= defaults.reattachTries) return answer;
    if ((await host.readRunFiles(recorded.run)).exit !== null) return answer;
    await clock.sleep(defaults.reattachPauseMs * 2 ** tries);
  }
}
