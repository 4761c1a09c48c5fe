import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { basename } from "node:path";

/** Lengths in `anchor/os/windows/socket.c`. */
const CHALLENGE_BYTES = 32;
const PROOF_BYTES = 32;
const KEY = /^[0-9a-f]{64}$/;

/** Another program has the name of the pipe, so the launcher or anchor has ended. */
export class WrongProof extends Error {
  constructor() {
    super("another program listens on its named pipe, and nothing was sent to it");
  }
}

/**
 * The proof of a named pipe of Windows: its server knows the key in the file at the path of the socket, which only this user
 * can read. A client sends nothing before it has the proof. While no launcher or anchor listens, another user can create the pipe.
 */
export class PipeProof {
  readonly challenge = randomBytes(CHALLENGE_BYTES);
  readonly #expected: Buffer;
  #received = Buffer.alloc(0);

  constructor(key: Buffer) {
    this.#expected = createHmac("sha256", key).update(this.challenge).digest();
  }

  /** Takes the next bytes of the server. Returns those after the proof; null: it is not complete. Throws if it is wrong. */
  take(bytes: Buffer): Buffer | null {
    this.#received = Buffer.concat([this.#received, bytes]);
    if (this.#received.length < PROOF_BYTES) return null;
    if (timingSafeEqual(this.#received.subarray(0, PROOF_BYTES), this.#expected))
      return this.#received.subarray(PROOF_BYTES);
    throw new WrongProof();
  }
}

/** Keys of launchers, which do not write the file again if it is removed. Anchors do. */
const launcherKeys = new Map<string, string>();

function readKey(path: string): string {
  const isLauncher = basename(path) === "launcher.sock";
  try {
    const key = readFileSync(path, "latin1");
    if (isLauncher) launcherKeys.set(path, key);
    return key;
  } catch (error) {
    const known = launcherKeys.get(path);
    if (known === undefined) throw error;
    return known;
  }
}

/** The proof that the server of the socket at this path owes. Throws ENOENT or ECONNREFUSED if no process can listen there. */
export function pipeProof(path: string): PipeProof {
  const key = readKey(path);
  // The file of a gateway, whose server proves itself by the token.
  if (!KEY.test(key)) throw Object.assign(new Error(`${path} has no key`), { code: "ECONNREFUSED" });
  return new PipeProof(Buffer.from(key, "hex"));
}
