import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { setTimeout } from "node:timers/promises";
import { showPaged, TYPED_AHEAD_MS } from "../print/terminal-prompt.js";
import { expiryText, permissionSubject, type PermissionRequest } from "./permission-line.js";

/**
 * Ask on the terminal, after the whole question (`shown`) has been displayed. Null: the question stays open, or `over` came first. Ctrl-C is no answer either: it goes to
 * `interrupted`, and whoever is told there ends the question.
 */
export async function askPermission(
  permission: PermissionRequest,
  shown: readonly string[],
  over: AbortSignal,
  interrupted: () => void,
): Promise<"allow" | "deny" | null> {
  if (!(await showPaged([`? ${permissionSubject(permission)}`, ...shown], process.stderr, over))) {
    if (!over.aborted) interrupted();
    return null;
  }
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  const closed = once(asking, "close").then(() => null);
  let left = false;
  asking.on("SIGINT", () => {
    if (!left) process.stderr.write("\n");
    left = true;
    interrupted();
  });
  try {
    await setTimeout(TYPED_AHEAD_MS);
    const question = `  allow it, this once? [y/N/later] (${expiryText(permission, Date.now())}) `;
    // Not every Node rejects it when it is closed.
    const answered = asking.question(question, { signal: over }).catch(() => null);
    const answer = await Promise.race([answered, closed]);
    if (answer === null && !left) process.stderr.write("\n");
    if (answer === null || /^l/i.test(answer.trim())) return null;
    return /^y(es)?$/i.test(answer.trim()) ? "allow" : "deny";
  } finally {
    asking.close();
  }
}
