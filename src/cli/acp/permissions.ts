import { constants } from "node:os";
import type { GatewayClient } from "../../api/client.js";
import { deferred } from "../../async/deferred.js";
import { GatewayUnreachable, NotFound } from "../../errors.js";
import { omitUndefined } from "../../model/records.js";
import { questionLines } from "../../sessions/question-pages.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator, connectForReading } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { resolveAcpSession } from "../client/resolve-acp-session.js";
import type { JsonFlag } from "../options/parsers.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/stderr.js";
import { print, toRecordJson } from "../print/stdout.js";
import { printTable } from "../print/table.js";
import {
  ask,
  printPaged,
  readWholeQuestion,
  showPaged,
  verdictIn,
  wholeQuestionLines,
} from "../print/terminal-prompt.js";
import {
  type AcpView,
  expiryText,
  permissionLine,
  type PermissionRequest,
  permissionSubject,
  type TurnChange,
  type WatchedUpdate,
} from "./view/texts.js";

export interface ListPermissionsFlags extends JsonFlag {
  readonly session?: string;
  readonly all?: true;
}

export async function printPermissions({ session, all, json }: ListPermissionsFlags): Promise<number> {
  await using reader = await openReadClient();
  const of =
    session === undefined ? {} : { session: (await resolveAcpSession(reader.client, session)).sessionId };
  const query = { ...of, ...(all === true ? { all: "1" as const } : {}), limit: 1_000 };
  const { permissions } = await reader.client.acpPermissions({ query });
  if (json === true) print(toRecordJson(permissions, 2));
  else if (permissions.length === 0) notice("there are no permission requests", "dim");
  else {
    // Rows are not cut to the terminal's width, because permissions may be allowed from this list.
    printTable(["PERMISSION", "SESSION", "STATE", "SHOWN", "FOR"], permissions.map(permissionRow), null);
    if (permissions.some((each) => shownColumn(each) === "part"))
      print(
        "part: the row shows only a part of the request; `holdfast acp permissions show <permission>` shows all of it\n",
      );
  }
  return 0;
}

function permissionRow(permission: PermissionRequest): string[] {
  const { id } = permission;
  return [
    id,
    sessionName(permission),
    permissionState(permission),
    shownColumn(permission),
    permissionSubject(permission),
  ];
}

function shownColumn({ decision, question }: PermissionRequest): string {
  if (decision !== null) return "-";
  return question?.whole === true ? "all" : "part";
}

export interface ShowPermissionFlags extends JsonFlag {
  readonly reveal?: true;
}

/** Prints the whole request; on a terminal, screen by screen. */
export async function showPermission(id: string, { reveal, json }: ShowPermissionFlags): Promise<number> {
  const client = await operatorClient(id);
  const question = await readPermissionQuestion(client, id, reveal === true);
  const { first, ...rest } = question;
  if (json === true) print(toRecordJson({ permission: first.permission, ...rest }, 2));
  else {
    const { permission } = first;
    const head = `${id}: session ${sessionName(permission)} (${permission.sessionId}), ${permissionState(permission)}`;
    const all = [
      head,
      ...optionLines(permission),
      ...wholeQuestionLines(question, "holdfast acp permissions", id),
    ];
    if (!(await printPaged(all))) return exitCodes.signal + constants.signals.SIGINT;
  }
  return 0;
}

function readPermissionQuestion(client: GatewayClient, id: string, reveal: boolean) {
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

/** The name of the session, or its id if the name is not known. */
function sessionName({ sessionKey, sessionId }: PermissionRequest): string {
  return sanitizeLine(sessionKey || sessionId);
}

/** The options that the agent offers, with the ids that `--option` takes. */
function optionLines({ options }: PermissionRequest): string[] {
  return options.map(({ optionId, name, kind }) =>
    sanitizeLine(`option ${JSON.stringify(optionId)}: ${kind.replaceAll("_", " ")}, ${JSON.stringify(name)}`),
  );
}

function permissionState(permission: PermissionRequest): string {
  const { decision } = permission;
  if (decision === null) return expiryText(permission, Date.now());
  return `${decision.verdict} (${sanitizeLine(decision.actor)})`;
}

export interface AnswerFlags extends JsonFlag {
  readonly digest?: string;
  /** The agent's option. */
  readonly option?: string;
}

/** An answer that came too late is reported: the request was answered before, or has expired. */
export async function answerPermission(
  id: string,
  verdict: "allow" | "deny",
  { json, digest, option }: AnswerFlags,
): Promise<number> {
  const client = await operatorClient(id);
  const body = { verdict, ...omitUndefined({ digest, optionId: option }) };
  const answer = await client.acpAnswer({ params: { id }, body });
  const { permission, decided } = answer;
  const done = decided && permission.decision?.verdict === verdict;
  if (json === true) print(toRecordJson(answer));
  else if (done) print(`${id}: ${verdict}\n`);
  else if (decided) print(`${id}: cancelled: the agent does not offer to allow it once\n`);
  else print(`${id}: too late, ${permissionState(permission)}\n`);
  return done ? 0 : exitCodes.incomplete;
}

/**
 * Asks on the terminal, after the whole request (`shown`) was displayed. Null: the request stays open, or `over` came
 * first. Ctrl-C is no answer: it is reported to `interrupted`, which ends the request.
 */
async function askPermission(
  permission: PermissionRequest,
  shown: readonly string[],
  over: AbortSignal,
  interrupted: () => void,
): Promise<"allow" | "deny" | null> {
  const subject = `? ${sessionName(permission)}: ${permissionSubject(permission)}`;
  if (!(await showPaged([subject, ...shown], process.stderr, over))) {
    if (!over.aborted) interrupted();
    return null;
  }
  let left = false;
  const answer = await ask(`  allow it, this once? [y/N/later] (${expiryText(permission, Date.now())}) `, {
    over,
    onInterrupt: () => {
      if (!left) process.stderr.write("\n");
      left = true;
      interrupted();
    },
  });
  if (answer === null && !left) process.stderr.write("\n");
  return answer === null ? null : verdictIn(answer);
}

interface PermissionPrompterOptions {
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
        const { parts, digest } = await readPermissionQuestion(client(), id, false);
        const lines = current.question?.whole === true ? [] : questionLines(parts);
        const verdict = await askPermission(current, lines, over.signal, interrupted);
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

/** True if the update ends the request or makes an answer pointless. */
function settlesRequest({ type, data }: WatchedUpdate, id: string): boolean {
  if (type === "permission") return (data as PermissionRequest).id === id;
  return type === "turn" ? (data as TurnChange).state === "ended" : type === "session";
}
