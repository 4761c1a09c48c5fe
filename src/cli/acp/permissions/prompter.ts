import type { GatewayClient } from "../../../api/client.js";
import type { RequestOf } from "../../../api/contract.js";
import { deferred } from "../../../async/deferred.js";
import { questionLines } from "../../../sessions/paginate-question.js";
import { askUntil, showPaged, verdictIn } from "../../print/terminal-prompt.js";
import { answerForm } from "./form-prompt.js";
import { readPermissionQuestion, sessionName } from "./list-and-answer.js";
import {
  type AcpView,
  expiryText,
  permissionLine,
  type PermissionRequest,
  permissionSubject,
  toOneLine,
  type TurnChange,
  type WatchedUpdate,
} from "../view/notice-texts.js";

/**
 * Asks on the terminal, after the whole request (`shown`) was displayed. Null: the request stays open, or `over` came
 * first. Ctrl-C is no answer: it is reported to `interrupted`, which ends the request.
 */
async function askPermission(
  permission: PermissionRequest,
  shown: readonly string[],
  over: AbortSignal,
  interrupted: () => void,
): Promise<TerminalAnswer | null> {
  const subject = `? ${sessionName(permission)}: ${permissionSubject(permission)}`;
  if (!(await showPaged([subject, ...shown], process.stderr, over))) {
    if (!over.aborted) interrupted();
    return null;
  }
  const choices = offeredAnswers(permission);
  const words = choices.canRemember ? "y/N/always/never/later" : "y/N/later";
  const listed = choices.options.map(
    ({ name, kind }, at) => `  ${at + 1}: ${toOneLine(name)} (${kind.replaceAll("_", " ")})\n`,
  );
  if (listed.length > 0) process.stderr.write(listed.join(""));
  const numbers = listed.length === 0 ? "" : `/1-${listed.length}`;
  const expiry = expiryText(permission, Date.now());
  const answer = await askUntil(`  allow it? [${words}${numbers}] (${expiry}) `, over, interrupted);
  return answer === null ? null : parseAnswer(answer, choices);
}

/** Answers of an operator to a request, besides yes and no. */
interface OfferedAnswers {
  /** The agent's own options, if it offers others than one to allow and one to deny once. */
  readonly options: PermissionRequest["options"];
  /** The request has a title by which it can be recognized again. */
  readonly canRemember: boolean;
}

function offeredAnswers({ options, title }: PermissionRequest): OfferedAnswers {
  const known = options.filter(({ kind }) => /^(allow|reject)_(once|always)$/.test(kind));
  const plain = known.length <= 2 && new Set(known.map(({ kind }) => kind)).size === known.length;
  const once = known.every(({ kind }) => kind.endsWith("_once"));
  return { options: plain && once ? [] : known, canRemember: title !== null && title !== "" };
}

type TerminalAnswer = Pick<RequestOf<"acpAnswer">["body"], "verdict" | "optionId" | "remember" | "content">;

/** Parses a line that the operator typed. Null: later. A line that is not understood denies the request. */
function parseAnswer(line: string, { options, canRemember }: OfferedAnswers): TerminalAnswer | null {
  const word = line.trim().toLowerCase();
  if (canRemember && (word === "a" || word === "always"))
    return { verdict: "allow", remember: { scope: "session" } };
  if (canRemember && word === "never") return { verdict: "deny", remember: { scope: "session" } };
  const option = /^\d{1,2}$/.test(word) ? options[Number(word) - 1] : undefined;
  if (option !== undefined)
    return { verdict: option.kind.startsWith("allow") ? "allow" : "deny", optionId: option.optionId };
  const verdict = verdictIn(word);
  return verdict === null ? null : { verdict };
}

interface PermissionPrompterOptions {
  readonly view: AcpView;
  /** There is a terminal, and its user may answer. */
  readonly interactive: boolean;
  readonly client: () => GatewayClient;
  readonly onInterrupt: () => void;
}

/** Shows the updates of a session. While a request is open on the terminal, updates are queued. */
export class PermissionPrompter implements Disposable {
  readonly #options: PermissionPrompterOptions;
  #current: { readonly id: string; readonly over: AbortController } | null = null;
  #pendingUpdates: WatchedUpdate[] = [];
  readonly #failure = deferred<never>();

  constructor(options: PermissionPrompterOptions) {
    this.#options = options;
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
      const current = permissions.find((each) => each.id === id);
      if (current !== undefined) {
        view.flush();
        const { first, parts, digest } = await readPermissionQuestion(client(), id, false);
        const lines = current.question?.whole === true ? [] : questionLines(parts);
        if (first.form !== null) {
          const send = async (body: TerminalAnswer): Promise<void> => {
            await client().acpAnswer({ params: { id }, body });
          };
          const shown = [`? ${sessionName(current)}: ${permissionSubject(current)}`, ...lines];
          const asking = { shown, expiry: expiryText(current, Date.now()), over: over.signal, interrupted };
          if (!(await answerForm(first.form, asking, send)) && !over.signal.aborted)
            view.notice([permissionLine(permission, Date.now()) ?? "", "yellow"]);
          return;
        }
        const answer = await askPermission(current, lines, over.signal, interrupted);
        const shown = digest === null ? {} : { digest };
        if (answer !== null) await client().acpAnswer({ params: { id }, body: { ...answer, ...shown } });
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

/** True if the update ends the request or makes an answer pointless. */
function settlesRequest({ type, data }: WatchedUpdate, id: string): boolean {
  if (type === "permission") return (data as PermissionRequest).id === id;
  return type === "turn" ? (data as TurnChange).state === "ended" : type === "session";
}
