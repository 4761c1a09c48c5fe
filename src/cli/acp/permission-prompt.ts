import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { setTimeout } from "node:timers/promises";
import type { GatewayClient } from "../../api/client.js";
import { deferred } from "../../async/deferred.js";
import { questionLines } from "../../sessions/question-pages.js";
import { showPaged, TYPED_AHEAD_MS } from "../print/terminal-prompt.js";
import { readPermissionQuestion } from "./permissions.js";
import { expiryText, permissionLine, type PermissionRequest, permissionSubject } from "./view/formats.js";
import type { WatchedUpdate } from "./view/updates.js";
import type { AcpView, TurnChange } from "./view/updates.js";

/**
 * Asks on the terminal, after the whole request (`shown`) was displayed. Null: the request stays open, or `over` came
 * first. Ctrl-C is no answer: it is reported to `interrupted`, which ends the request.
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
    // Some versions of Node do not reject the question when the interface is closed.
    const answered = asking.question(question, { signal: over }).catch(() => null);
    const answer = await Promise.race([answered, closed]);
    if (answer === null && !left) process.stderr.write("\n");
    if (answer === null || /^l/i.test(answer.trim())) return null;
    return /^y(es)?$/i.test(answer.trim()) ? "allow" : "deny";
  } finally {
    asking.close();
  }
}

export interface PermissionPrompterOptions {
  readonly view: AcpView;
  /** There is a terminal, and its user may answer. */
  readonly interactive: boolean;
  readonly client: () => GatewayClient;
  readonly onInterrupt: () => void;
}

/** Shows what happens. While a request is open on the terminal, updates are queued. */
export class PermissionPrompter implements Disposable {
  readonly #options: PermissionPrompterOptions;
  #current: { readonly id: string; readonly over: AbortController } | null = null;
  #pendingUpdates: WatchedUpdate[] = [];
  readonly #failure = deferred<never>();

  constructor(parts: PermissionPrompterOptions) {
    this.#options = parts;
  }

  /** Rejects if a queued update cannot be shown. */
  get failure(): Promise<never> {
    return this.#failure.promise;
  }

  handleUpdate(update: WatchedUpdate): void {
    const question = unansweredRequest(update);
    if (this.#current !== null) {
      this.#pendingUpdates.push(update);
      if (settlesRequest(update, this.#current.id)) this.#current.over.abort();
    } else if (question !== null && this.#options.interactive)
      this.#ask(question).catch((error: unknown) => this.#failure.reject(error));
    else this.#options.view.show(update);
  }

  async #ask(permission: PermissionRequest): Promise<void> {
    const { client, view, onInterrupt: interrupted } = this.#options;
    const { id } = permission;
    const over = new AbortController();
    this.#current = { id, over };
    try {
      // An old request may have been answered since.
      const { permissions } = await client().acpPermissions({ query: { session: permission.sessionId } });
      const asked = permissions.find((each) => each.id === id);
      if (asked !== undefined) {
        view.flush();
        const { parts, digest } = await readPermissionQuestion(client(), id, false);
        const lines = asked.question?.whole === true ? [] : questionLines(parts);
        const verdict = await askPermission(asked, lines, over.signal, interrupted);
        const shown = digest === null ? {} : { digest };
        if (verdict !== null) await client().acpAnswer({ params: { id }, body: { verdict, ...shown } });
        else if (!over.signal.aborted) view.notice([permissionLine(permission, Date.now()) ?? "", "yellow"]);
      }
    } catch (error) {
      view.notice([`${id} is not answered: ${(error as Error).message}`, "yellow"]);
    } finally {
      this.#current = null;
      for (const update of this.#pendingUpdates.splice(0)) this.handleUpdate(update);
    }
  }

  [Symbol.dispose](): void {
    this.#current?.over.abort();
  }
}

function unansweredRequest({ type, data }: WatchedUpdate): PermissionRequest | null {
  const permission = data as PermissionRequest;
  return type === "permission" && permission.decision === null ? permission : null;
}

/** Whether the update ends the request or makes an answer pointless. */
function settlesRequest({ type, data }: WatchedUpdate, id: string): boolean {
  if (type === "permission") return (data as PermissionRequest).id === id;
  return type === "turn" ? (data as TurnChange).state === "ended" : type === "session";
}
