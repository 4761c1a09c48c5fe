import { once } from "node:events";
import { constants } from "node:os";
import { createInterface } from "node:readline/promises";
import { setTimeout } from "node:timers/promises";
import type { GatewayClient } from "../../api/client.js";
import { deferred } from "../../async/deferred.js";
import { GatewayUnreachable, NotFound } from "../../errors.js";
import { questionLines } from "../../sessions/question-pages.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator, connectForReading } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { resolveAcpSession } from "../client/resolve-acp-session.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/stderr.js";
import { print, toRecordJson } from "../print/stdout.js";
import { formatTable } from "../print/table.js";
import {
  printPaged,
  readWholeQuestion,
  showPaged,
  TYPED_AHEAD_MS,
  wholeQuestionLines,
} from "../print/terminal-prompt.js";
import { paletteFor } from "../print/terminal.js";
import {
  type AcpView,
  expiryText,
  permissionLine,
  type PermissionRequest,
  permissionSubject,
  type TurnChange,
  type WatchedUpdate,
} from "./view/texts.js";

export interface ListPermissionsRequest {
  readonly session: string | null;
  readonly all: boolean;
  readonly json: boolean;
}

export async function printPermissions({ session, all, json }: ListPermissionsRequest): Promise<number> {
  await using reader = await openReadClient();
  const of = session === null ? {} : { session: (await resolveAcpSession(reader.client, session)).sessionId };
  const query = { ...of, ...(all ? { all: "1" as const } : {}), limit: 1_000 };
  const { permissions } = await reader.client.acpPermissions({ query });
  if (json) print(toRecordJson(permissions, 2));
  else if (permissions.length === 0) notice("no agent asks for anything", "dim");
  else print(`${permissionTable(permissions, Date.now()).join("\n")}\n`);
  return 0;
}

/** Rows are not cut to the terminal's width, because permissions may be allowed from this list. */
function permissionTable(permissions: readonly PermissionRequest[], now: number): string[] {
  const rows = permissions.map((each) => [
    each.id,
    each.sessionId,
    permissionState(each, now),
    shownColumn(each),
    permissionSubject(each),
  ]);
  const [head, ...rest] = formatTable(["PERMISSION", "SESSION", "STATE", "SHOWN", "FOR"], rows, null);
  const hint = permissions.some((each) => shownColumn(each) === "part")
    ? [
        "part: the row shows only a part of the request; `holdfast acp permissions show <permission>` shows all of it",
      ]
    : [];
  return [paletteFor(1).bold(head ?? ""), ...rest, ...hint];
}

function shownColumn({ decision, question }: PermissionRequest): string {
  if (decision !== null) return "-";
  return question?.whole === true ? "all" : "part";
}

export interface ShowPermissionFlags {
  readonly reveal?: true;
  readonly json?: true;
}

/** Prints the whole request; on a terminal, screen by screen. */
export async function showPermission(id: string, { reveal, json }: ShowPermissionFlags): Promise<number> {
  const client = await operatorClient(id);
  const question = await readPermissionQuestion(client, id, reveal === true);
  const { first, ...rest } = question;
  if (json === true) print(toRecordJson({ permission: first.permission, ...rest }, 2));
  else {
    const head = `${id}: session ${first.permission.sessionId}, ${permissionState(first.permission, Date.now())}`;
    const all = [head, ...wholeQuestionLines(question, "holdfast acp permissions", id)];
    if (!(await printPaged(all))) return exitCodes.signal + constants.signals.SIGINT;
  }
  return 0;
}

export function readPermissionQuestion(client: GatewayClient, id: string, reveal: boolean) {
  return readWholeQuestion((page) =>
    client.acpQuestion({ params: { id }, query: { page, ...(reveal ? { reveal: "1" as const } : {}) } }),
  );
}

async function operatorClient(id: string): Promise<GatewayClient> {
  assertOperator("answer permission requests of agents");
  if (!/^prm_[0-9a-z]{12}$/.test(id)) throw new NotFound(`permission ${id.slice(0, 200)}`);
  const connection = await connectForReading();
  if (connection === null)
    throw new GatewayUnreachable(
      "no gateway is running, so the permission request cannot be shown or answered; nothing was done",
    );
  return connection.client;
}

function permissionState(permission: PermissionRequest, now: number): string {
  const { decision } = permission;
  return decision === null
    ? expiryText(permission, now)
    : `${decision.verdict} (${sanitizeLine(decision.actor)})`;
}

/** An answer that came too late is reported: the request was answered before, or has expired. */
export async function answerPermission(
  id: string,
  verdict: "allow" | "deny",
  { json, digest }: { readonly json?: true; readonly digest?: string },
): Promise<number> {
  const client = await operatorClient(id);
  const shown = digest === undefined ? {} : { digest };
  const answer = await client.acpAnswer({ params: { id }, body: { verdict, ...shown } });
  const { permission, decided } = answer;
  const done = decided && permission.decision?.verdict === verdict;
  if (json === true) print(toRecordJson(answer));
  else if (done) print(`${id}: ${verdict}\n`);
  else if (decided) print(`${id}: cancelled, its agent does not offer to be allowed this once\n`);
  else print(`${id}: too late, ${permissionState(permission, Date.now())}\n`);
  return done ? 0 : exitCodes.incomplete;
}

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
