import { describeSpawnFailure, type StartAttempt } from "./errors.js";
import { MalformedFrame } from "./frame-decoder.js";
import type { AnchorEvent, StreamName } from "../host.js";
import type { AnchorMessage } from "./message-codec.js";
import { parseExit, parseSurvivors } from "../run-dir/run-files.js";
import { decodeMember } from "../told-process.js";
import { decodeLeaderStatus, decodeWelcome } from "../welcome.js";

/** What a message from an anchor means to the run's supervisor; null for those that are not events. */
export function decodeEvent(message: AnchorMessage, attempt: StartAttempt | null): AnchorEvent | null {
  switch (message.name) {
    case "started":
      return { type: "started" };
    case "failed": {
      const { errno, step } = message;
      return { type: "failed", failure: { errno, step, message: describeSpawnFailure(message, attempt) } };
    }
    case "output": {
      const { start, end, dropped, lost, closed, withheld } = message;
      return {
        type: "output",
        stream: streamName(message.stream),
        start,
        end,
        dropped,
        ...(lost === null ? {} : { lost }),
        closed,
        withheld,
      };
    }
    case "stdin":
      return { type: "stdin", accepted: message.offset, limit: message.limit, closed: message.closed };
    case "leader":
      return {
        type: "leader",
        status: requirePresent(decodeLeaderStatus(message), "a leader message without a status"),
      };
    case "stopping": {
      const { reason, actor, requestId } = message;
      return { type: "stopping", stop: { reason, actor, requestId } };
    }
    case "survivors":
      return {
        type: "survivors",
        survivors: requirePresent(parseSurvivors(message.json), "a list of survivors that cannot be read"),
      };
    case "exited":
      return { type: "exited", exit: requirePresent(parseExit(message.json), "an end that cannot be read") };
    case "refused":
      return { type: "refused", code: message.codeName, message: message.message, epoch: message.epoch };
    case "adopted":
      return { type: "adopted", runId: message.runId };
    case "signalled":
      return { type: "signalled", count: message.count };
    case "membersAre":
      return {
        type: "members",
        requestId: message.requestId,
        processes: message.processes.map(decodeMember),
      };
    case "welcome":
      return { type: "status", welcome: decodeWelcome(message) };
    // Between supervisor and launcher only.
    case "launcher":
    case "anchorLost":
      return null;
    // Never said by an anchor.
    case "hold":
    case "start":
    case "hello":
    case "go":
    case "stop":
    case "write":
    case "closeStdin":
    case "resize":
    case "ack":
    case "policy":
    case "heartbeat":
    case "status":
    case "abandon":
    case "adopt":
    case "signal":
    case "members":
      return null;
  }
}

export function streamName(stream: number): StreamName {
  if (stream === 1) return "stdout";
  if (stream === 2) return "stderr";
  throw new MalformedFrame(`an unknown stream (${stream})`);
}

export function streamNumber(stream: StreamName): number {
  return stream === "stdout" ? 1 : 2;
}

function requirePresent<T>(value: T | null, what: string): T {
  if (value === null) throw new MalformedFrame(what);
  return value;
}
