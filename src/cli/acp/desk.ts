import type { GatewayClient } from "../../gateway/client.js";
import { questionLines } from "../../sessions/question.js";
import { deferred } from "../../supervisor/deferred.js";
import { askPermission } from "./ask.js";
import { readPermissionQuestion } from "./permissions.js";
import { permissionLine, type Permission } from "./permission-line.js";
import type { Update } from "./updates.js";
import type { TurnNews, View } from "./view.js";

export interface DeskParts {
  readonly view: View;
  /** There is a terminal, and who sits there may answer. */
  readonly asks: boolean;
  readonly client: () => GatewayClient;
  readonly interrupted: () => void;
}

/** Shows what happens; while a question is open on the terminal, what happens meanwhile waits. */
export class Desk implements Disposable {
  readonly #parts: DeskParts;
  #asking: { readonly id: string; readonly over: AbortController } | null = null;
  #waiting: Update[] = [];
  readonly #broken = deferred<never>();

  constructor(parts: DeskParts) {
    this.#parts = parts;
  }

  /** Rejects when what waited for an answer cannot be shown. */
  get broken(): Promise<never> {
    return this.#broken.promise;
  }

  take(update: Update): void {
    const question = openQuestion(update);
    if (this.#asking !== null) {
      this.#waiting.push(update);
      if (answers(update, this.#asking.id)) this.#asking.over.abort();
    } else if (question !== null && this.#parts.asks)
      this.#ask(question).catch((error: unknown) => this.#broken.reject(error));
    else this.#parts.view.show(update);
  }

  async #ask(permission: Permission): Promise<void> {
    const { client, view, interrupted } = this.#parts;
    const { id } = permission;
    const over = new AbortController();
    this.#asking = { id, over };
    try {
      // One of long ago may have been answered since.
      const { permissions } = await client().acpPermissions({ query: { session: permission.sessionId } });
      const asked = permissions.find((each) => each.id === id);
      if (asked !== undefined) {
        view.settle();
        const { parts, digest } = await readPermissionQuestion(client(), id, false);
        const lines = asked.question?.whole === true ? [] : questionLines(parts);
        const verdict = await askPermission(asked, lines, over.signal, interrupted);
        const shown = digest === null ? {} : { digest };
        if (verdict !== null) await client().acpAnswer({ params: { id }, body: { verdict, ...shown } });
        else if (!over.signal.aborted) view.remark([permissionLine(permission, Date.now()) ?? "", "yellow"]);
      }
    } catch (error) {
      view.remark([`${id} is not answered: ${(error as Error).message}`, "yellow"]);
    } finally {
      this.#asking = null;
      for (const update of this.#waiting.splice(0)) this.take(update);
    }
  }

  [Symbol.dispose](): void {
    this.#asking?.over.abort();
  }
}

function openQuestion({ type, data }: Update): Permission | null {
  const permission = data as Permission;
  return type === "permission" && permission.decision === null ? permission : null;
}

/** Or makes an answer pointless. */
function answers({ type, data }: Update, id: string): boolean {
  if (type === "permission") return (data as Permission).id === id;
  return type === "turn" ? (data as TurnNews).state === "ended" : type === "session";
}
