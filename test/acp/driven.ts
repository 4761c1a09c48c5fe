import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";
import { type Adapter, type AdapterEnd, type AdapterOptions, startAdapter } from "../../src/acp/adapter.js";
import { Conversation } from "../../src/acp/conversation.js";
import { readPermission } from "../../src/acp/permission-request.js";
import { decidePermission } from "../../src/acp/permission.js";
import type { PermissionRule } from "../../src/store/acp-record.js";
import type { Turn } from "../../src/acp/turn.js";
import type { Handlers, Question } from "../../src/acp/wire/handlers.js";
import { initialize } from "../../src/acp/wire/initialize.js";
import { bystander, processesOf, realSupervisor } from "../supervisor/real-supervisor.js";

const INFO = { name: "holdfast-test", version: "0" };
const PATIENCE = 20_000;

export const misbehaving = (mode: string): string[] => [
  process.execPath,
  fileURLToPath(new URL("agents/misbehave.mjs", import.meta.url)),
  mode,
];

interface OpenLimits {
  readonly initializeMs?: number;
  readonly newMs?: number;
  readonly cwd?: string;
}

/** An agent under a real supervisor, and a client that does what any client does. */
export class Driven {
  readonly adapter: Adapter;
  /** Of the session that is open. */
  conversation = new Conversation("");
  sessionId = "";
  permissions = 0;

  constructor(adapter: Adapter) {
    this.adapter = adapter;
  }

  /** Both: the agent is ready for a prompt. */
  async open(limits: OpenLimits = {}): Promise<void> {
    const { initializeMs = PATIENCE, newMs = PATIENCE, cwd = process.cwd() } = limits;
    await initialize(this.adapter.connection, INFO, { deadlineMs: initializeMs });
    const { sessionId } = await this.adapter.connection.request(
      "session/new",
      { cwd, mcpServers: [] },
      { deadlineMs: newMs, fatal: true },
    );
    this.sessionId = sessionId;
    this.conversation = new Conversation(sessionId);
  }

  beginTurn(): Turn {
    return this.conversation.beginTurn();
  }

  cancel(): Promise<void> {
    return this.adapter.connection.notify("session/cancel", { sessionId: this.sessionId });
  }

  async prompt(deadlineMs: number = PATIENCE, fatal = true): Promise<string> {
    const prompt = [{ type: "text" as const, text: "go" }];
    const { stopReason } = await this.adapter.connection.request(
      "session/prompt",
      { sessionId: this.sessionId, prompt },
      { deadlineMs, fatal },
    );
    return stopReason;
  }

  /** The connection is over, every process is gone, the directory too. */
  async gone(): Promise<AdapterEnd> {
    const end = await this.adapter.ended;
    expect(end.record).toMatchObject({ state: "exited", emptiness: "proven" });
    expect(await processesOf(this.adapter.run.runId)).toEqual([]);
    expect(existsSync(this.adapter.tmpdir)).toBe(false);
    return end;
  }
}

interface DriveOptions extends Pick<AdapterOptions, "inherit" | "cwd" | "leaveMs"> {
  readonly rules?: readonly PermissionRule[];
  readonly handlers?: Partial<Handlers>;
}

export async function drive(
  argv: readonly string[],
  { rules = [], handlers = {}, ...rest }: DriveOptions = {},
): Promise<Driven> {
  const supervisor = await realSupervisor();
  // As like to what the agents leave as can be.
  bystander("sleep", "3018");
  const answer = async ({ id, params }: Question): Promise<void> => {
    driven.permissions++;
    const asked = readPermission(params);
    if (asked === null) throw new Error("not a permission request");
    const decision = decidePermission(rules, asked, asked.options, { canAsk: false });
    if (decision.type === "answer")
      await driven.adapter.connection.answer(id, { result: { outcome: decision.outcome } });
  };
  const adapter = await startAdapter(supervisor, {
    argv,
    ...rest,
    graceMs: 300,
    handlers: {
      updates: async (batch) => {
        for (const update of batch) driven.conversation.take(update);
      },
      questions: { "session/request_permission": answer },
      ...handlers,
    },
  });
  const driven = new Driven(adapter);
  onTestFinished(() => adapter.connection.close());
  return driven;
}
