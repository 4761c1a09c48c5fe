import { deferred, type Deferred } from "../../async/deferred.js";
import { StoreAway } from "../../errors.js";
import type { GroupedCall } from "../sql/engine.js";

/** Bounds how many rows a statement locks, and for how long. */
const CALLS_IN_GROUP = 64;

/** While the server syncs the commit of one group, it can execute another. */
const GROUPS_AT_ONCE = 2;

interface Member<Call, Result> {
  readonly call: Call;
  readonly shape: string;
  readonly done: Deferred<Result>;
}

/**
 * Executes calls of one kind in groups: calls that arrive while a group is being executed form the next. A group is one
 * statement, hence one round trip and one commit. A call is answered after the commit.
 */
export class CallGroups<Call, Result> {
  readonly #kind: GroupedCall<Call, Result>;
  #waiting: Member<Call, Result>[] = [];
  #running = 0;

  constructor(kind: GroupedCall<Call, Result>) {
    this.#kind = kind;
  }

  add(call: Call): Promise<Result> {
    const shape = this.#kind.shapeOf(call);
    if (shape === null) return this.#kind.alone(call);
    const done = deferred<Result>();
    this.#waiting.push({ call, shape, done });
    if (this.#running < GROUPS_AT_ONCE) void this.#executeWaiting();
    return done.promise;
  }

  /** Never rejects. */
  async #executeWaiting(): Promise<void> {
    this.#running += 1;
    while (this.#waiting.length > 0) await this.#execute(this.#takeGroup());
    this.#running -= 1;
  }

  /** Takes the first waiting call, with the calls of the same shape for other records. */
  #takeGroup(): readonly Member<Call, Result>[] {
    const group: Member<Call, Result>[] = [];
    const records = new Set<string>();
    const rest: Member<Call, Result>[] = [];
    for (const member of this.#waiting) {
      const record = this.#kind.recordOf(member.call);
      const fits = group.length < CALLS_IN_GROUP && (group[0]?.shape ?? member.shape) === member.shape;
      if (fits && (record === null || !records.has(record))) group.push(member);
      else rest.push(member);
      // A later call about the same record must not overtake this one.
      if (record !== null) records.add(record);
    }
    this.#waiting = rest;
    return group;
  }

  async #execute(group: readonly Member<Call, Result>[]): Promise<void> {
    let results: readonly (Result | undefined)[];
    try {
      results = await this.#kind.together(group.map(({ call }) => call));
    } catch (error) {
      // The statement may have been committed without an answer, so no call is repeated.
      if (error instanceof StoreAway) return group.forEach(({ done }) => done.reject(error));
      // The server has rolled the statement back because of one of the calls.
      results = [];
    }
    const alone: Promise<void>[] = [];
    for (const [at, member] of group.entries()) {
      const result = results[at];
      if (result === undefined) alone.push(this.#executeAlone(member));
      else member.done.resolve(result);
    }
    await Promise.all(alone);
  }

  async #executeAlone({ call, done }: Member<Call, Result>): Promise<void> {
    try {
      done.resolve(await this.#kind.alone(call));
    } catch (error) {
      done.reject(error);
    }
  }
}
