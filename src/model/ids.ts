import { createHash, randomFillSync } from "node:crypto";

/** Crockford's alphabet, without i, l, o and u, so that an id can be read aloud. */
const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";

/** Short, because ids are part of socket paths, which the kernel limits to 107 bytes. */
const ID_CHARACTERS = 12;
const INSTANCE_CHARACTERS = 8;
/** A lease id is searched for in the environments of unrelated processes, so it must not occur by chance. */
const LEASE_CHARACTERS = 16;

/** Random bytes for some hundred ids: each call of the generator costs as much as a small system call. */
const randomPool = Buffer.alloc(4096);
let randomPoolUsed = randomPool.length;

/** Bytes that no other call has got. Valid until the next call. */
function takeRandom(count: number): Buffer {
  if (randomPoolUsed + count > randomPool.length) {
    randomFillSync(randomPool);
    randomPoolUsed = 0;
  }
  randomPoolUsed += count;
  return randomPool.subarray(randomPoolUsed - count, randomPoolUsed);
}

function randomCharacters(characters: number): string {
  let text = "";
  for (const byte of takeRandom(characters)) text += ALPHABET[byte & 31];
  return text;
}

/** A secret of so many bytes, which this process does not keep elsewhere. */
export function newSecret(bytes: number): string {
  const random = takeRandom(bytes);
  const secret = random.toString("hex");
  random.fill(0);
  return secret;
}

function newId(prefix: string, characters = ID_CHARACTERS): string {
  return `${prefix}_${randomCharacters(characters)}`;
}

export const newInstanceId = (): string => newId("in", INSTANCE_CHARACTERS);
export const newRunId = (): string => newId("run");
export const newLeaseId = (): string => newId("lease", LEASE_CHARACTERS);
export const newRequestId = (): string => newId("req");
export const newSessionId = (): string => newId("ses");
export const newApprovalId = (): string => newId("apr");
export const newMessageId = (): string => newId("msg");
export const newTurnId = (): string => newId("turn");
export const newPermissionId = (): string => newId("prm");
export const newPermissionRuleId = (): string => newId("prl");
export const newTaskId = (): string => newId("task");

/** One per process that opens an instance; distinguishes a restarted supervisor from the one before. */
export function newIncarnationId(): string {
  return randomCharacters(LEASE_CHARACTERS);
}

/** The same id for the same seed, so that a repeated request finds its run. */
export function runIdFrom(seed: string): string {
  const digest = createHash("sha256").update(seed).digest().subarray(0, ID_CHARACTERS);
  return `run_${[...digest].map((byte) => ALPHABET[byte & 31]).join("")}`;
}

/** Always the same id, because a message has one turn. */
export function turnIdOfMessage(messageId: string): string {
  return `turn_${messageId.slice("msg_".length)}`;
}

export function isRunId(text: string): boolean {
  return /^run_[0-9a-hjkmnp-tv-z]{12}$/.test(text);
}

/** An instance id is part of paths, also of cgroups. */
export function isInstanceId(text: string): boolean {
  return /^[a-z0-9][a-z0-9_-]{0,11}$/.test(text);
}

/** A key of this form would be taken for an id. */
export function looksLikeSessionId(text: string): boolean {
  return /^ses_[0-9a-z]{12}$/.test(text);
}
