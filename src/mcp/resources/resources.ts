import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type Result,
} from "@modelcontextprotocol/server";
import { defaults } from "../../defaults.js";
import { HoldfastError } from "../../errors.js";
import type { SessionConnection } from "../session/session-connection.js";
import { outputText, viewOutput } from "../run-view.js";
import { viewTask } from "../tasks/task-view.js";

/** The resource that a URI of this server names. */
type ResourceName =
  | { readonly kind: "log" | "screen"; readonly runId: string }
  | { readonly kind: "task"; readonly taskId: string };

const PAGE = 50;
const PLAIN = "text/plain";
const JSON_TYPE = "application/json";

export const RESOURCE_TEMPLATES = [
  {
    uriTemplate: "holdfast://runs/{runId}/log",
    name: "run-log",
    title: "Output of a command",
    description: "The newest output of a command, both streams.",
    mimeType: PLAIN,
  },
  {
    uriTemplate: "holdfast://runs/{runId}/screen",
    name: "run-screen",
    title: "Screen of a command",
    description: "What the terminal of a command shows.",
    mimeType: PLAIN,
  },
  {
    uriTemplate: "holdfast://tasks/{taskId}",
    name: "task",
    title: "Task",
    description: "The record of a task: its status, progress and result.",
    mimeType: JSON_TYPE,
  },
] as const;

export function taskUri(taskId: string): string {
  return `holdfast://tasks/${taskId}`;
}

/** Null: the URI is none of this server. */
export function parseResourceUri(uri: string): ResourceName | null {
  const [, runId, view] = /^holdfast:\/\/runs\/([\w-]{1,63})\/(log|screen)$/.exec(uri) ?? [];
  if (runId !== undefined && view !== undefined) return { kind: view === "log" ? "log" : "screen", runId };
  const [, taskId] = /^holdfast:\/\/tasks\/([\w-]{1,63})$/.exec(uri) ?? [];
  return taskId === undefined ? null : { kind: "task", taskId };
}

/** The session's runs, newest first, page by page; the newest tasks on the first page. */
export async function listResources(
  { client }: SessionConnection,
  cursor: string | undefined,
  signal: AbortSignal,
): Promise<Result> {
  const query = { limit: PAGE, all: "1" as const, ...(cursor === undefined ? {} : { cursor }) };
  const [{ runs, next }, { tasks }] = await Promise.all([
    client.listRuns({ query }, signal),
    cursor === undefined ? client.listTasks({ query: { limit: PAGE } }, signal) : { tasks: [] },
  ]).catch((error: unknown) => {
    const isBadCursor = error instanceof HoldfastError && error.code === "BAD_INPUT";
    throw isBadCursor ? new ProtocolError(ProtocolErrorCode.InvalidParams, error.message) : error;
  });
  const ofRun = (runId: string, view: string, command: string) => ({
    uri: `holdfast://runs/${runId}/${view}`,
    name: `${runId} ${view}`,
    description: command.slice(0, 200),
    mimeType: PLAIN,
  });
  const resources = [
    ...tasks.map(({ taskId, status, text }) => ({
      uri: taskUri(taskId),
      name: taskId,
      description: `${status}: ${text.slice(0, 200)}`,
      mimeType: JSON_TYPE,
    })),
    ...runs.flatMap(({ runId, io, command }) => [
      ofRun(runId, "log", command),
      ...(io === "pty" ? [ofRun(runId, "screen", command)] : []),
    ]),
  ];
  return { resources, ...(next === null ? {} : { nextCursor: next }) };
}

export async function readResource(
  connection: SessionConnection,
  uri: string,
  signal: AbortSignal,
): Promise<Result> {
  const name = parseResourceUri(uri);
  if (name === null) throw new ResourceNotFoundError(uri);
  try {
    const text = await readText(connection, name, signal);
    return { contents: [{ uri, mimeType: name.kind === "task" ? JSON_TYPE : PLAIN, text }] };
  } catch (error) {
    const isMissing = error instanceof HoldfastError && ["RUN_NOT_FOUND", "NOT_FOUND"].includes(error.code);
    throw isMissing ? new ResourceNotFoundError(uri) : error;
  }
}

async function readText(
  { client }: SessionConnection,
  name: ResourceName,
  signal: AbortSignal,
): Promise<string> {
  if (name.kind === "task") {
    const { task } = await client.getTask({ params: { id: name.taskId } }, signal);
    return JSON.stringify(viewTask(task), null, 2);
  }
  const { runId } = name;
  if (name.kind === "screen") {
    const { rows } = await client.screen({ params: { runId } }, signal);
    return rows
      .map((row) => row.trimEnd())
      .join("\n")
      .trimEnd();
  }
  const query = { maxChars: defaults.mcpOutputChars };
  const { output } = await client.poll({ params: { runId }, query }, signal);
  return outputText(runId, viewOutput(output, "stdout"), viewOutput(output, "stderr"));
}
