import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { BadInput } from "../errors.js";
import type { TaskPosition } from "../store/tasks/store.js";

/** Where a list of tasks goes on, in words that only who wrote them can read: it may be at a task that may not be seen. */
export interface TaskCursorCodec {
  encode(place: TaskPosition): string;
  decode(text: string): TaskPosition;
}

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** `secret`: the same after a restart, so that whoever reads on is understood. */
export function createTaskCursorCodec(secret: string): TaskCursorCodec {
  const key = createHash("sha256").update(`places in lists of tasks: ${secret}`).digest();
  return {
    encode: ({ createdAt, taskId }) => {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, key, nonce);
      const sealed = Buffer.concat([cipher.update(`${createdAt}.${taskId}`), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64url");
    },
    decode: (text) => {
      try {
        const bytes = Buffer.from(text, "base64url");
        const [nonce, sealed] = [bytes.subarray(0, NONCE_BYTES), bytes.subarray(NONCE_BYTES + TAG_BYTES)];
        const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
        decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
        const [at = "", taskId = ""] =
          `${decipher.update(sealed, undefined, "utf8")}${decipher.final("utf8")}`.split(".");
        return { createdAt: Number(at), taskId };
      } catch {
        throw new BadInput(
          "cursor",
          `${JSON.stringify(text)} is no place in a list of tasks; nothing was done`,
        );
      }
    },
  };
}
