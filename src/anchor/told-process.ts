import type { ProcessEvidence } from "./host.js";
import { MalformedFrame } from "./protocol/frame-decoder.js";

/** pid, start time, unique id, parent, session, CPU and memory, 8 bytes each; then one for its state. */
const MEMBER_NUMBERS = 7;
const MEMBER_HEADER_BYTES = 8 * MEMBER_NUMBERS + 1;

/** A process as an anchor tells of it. */
export function decodeMember(field: Uint8Array): ProcessEvidence["descendants"][number] {
  const bytes = Buffer.from(field.buffer, field.byteOffset, field.length);
  if (bytes.length < MEMBER_HEADER_BYTES) throw new MalformedFrame("a process that is cut off");
  const number = (at: number) => bytes.readBigUInt64LE(8 * at);
  const unique = number(2);
  return {
    identity: {
      pid: Number(number(0)),
      startTime: Number(number(1)),
      uniqueId: unique === 0n ? null : String(unique),
    },
    parentPid: Number(number(3)),
    sessionId: Number(number(4)),
    cpuMs: Number(number(5)),
    rssKb: Number(number(6)),
    state: bytes.toString("latin1", MEMBER_HEADER_BYTES - 1, MEMBER_HEADER_BYTES),
    command: bytes.toString("utf8", MEMBER_HEADER_BYTES),
    ports: [],
  };
}
