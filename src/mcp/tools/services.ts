import { z } from "zod";
import { defaults } from "../../defaults.js";
import { newRunId } from "../../model/ids.js";
import type { RunRecord } from "../../model/run.js";
import { failureKindOf } from "../../queries/runs.js";
import { outputText, outputView, runView, stateText, viewOutput, viewRun } from "../run-view.js";
import { defineTool, requireArguments, type ToolAnswer, type ToolCall } from "../tool.js";
import { commandBody, commandFields } from "./exec.js";
import { killText } from "./process.js";

const port = z.int().min(1).max(65_535);

const input = z.strictObject({
  action: z.enum(["list", "start", "stop", "logs", "ready"]),
  ...commandFields,
  port: port.nullish().describe("start: wait until the service listens on this port"),
  readyMs: z
    .int()
    .min(0)
    .max(600_000)
    .nullish()
    .describe("start, ready: how long to wait for the port. Default 30000"),
  runId: z.string().max(63).nullish().describe("stop, logs, ready: the service"),
  lines: z.int().min(1).max(10_000).nullish().describe("logs: the number of newest lines. Default 200"),
  stream: z.enum(["stdout", "stderr"]).nullish().describe("logs: default stdout"),
});

const output = z.object({
  services: z.array(runView).optional(),
  service: runView.optional(),
  readiness: z
    .string()
    .nullable()
    .optional()
    .describe("ready, timeout, ended or given-up; null: it names no port"),
  stdout: outputView.optional(),
  stderr: outputView.optional(),
  log: outputView.optional(),
  outcome: z.string().optional().describe("stop: gone, ended-before, survivors, unknown or handed-over"),
});

type Given = z.output<typeof input>;
type Answer = ToolAnswer & { readonly data: z.input<typeof output> };

const READY_MS = 30_000;

export const servicesTool = defineTool({
  name: "services",
  title: "Services",
  description:
    "Servers and watchers that run until they are stopped, also when this client ends. start: a command; with port, " +
    "the answer comes when it listens there, and a service that does not is stopped. list; ready: wait for the port; " +
    "logs: its newest lines; stop: end it with everything that it started.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  input,
  output,
  run: (given, call) => actions[given.action](given, call),
});

const actions: Readonly<Record<Given["action"], (given: Given, call: ToolCall) => Promise<Answer>>> = {
  list: async (_, { client, signal }) => {
    const { runs } = await client.listRuns({ query: { limit: 1_000 } }, signal);
    const services = runs.map(viewRun).filter(({ service }) => service);
    const lines = services.map(
      ({ runId, port: at, command }) => `${runId}  ${at === null ? "-" : `port ${at}`}  ${command}`,
    );
    return { text: lines.length === 0 ? "no services are running" : lines.join("\n"), data: { services } };
  },

  start: async (given, call) => {
    const wanted =
      typeof given.port === "number" ? { port: given.port, readyTimeoutMs: given.readyMs ?? READY_MS } : {};
    const body = {
      ...commandBody(given, call, false),
      ...{ kind: "service" as const, runId: newRunId(), maxChars: defaults.mcpOutputChars, ...wanted },
      // Without a port there is nothing to wait for.
      background: given.port === undefined || given.port === null,
    };
    const {
      run,
      failure,
      readiness,
      running,
      output: pieces,
    } = await call.client.exec({ body }, call.signal);
    const stdout = viewOutput(pieces, "stdout");
    const stderr = viewOutput(pieces, "stderr");
    const state = readiness === null ? stateText(run, failure) : readinessText(run, failure, readiness);
    return {
      text: [outputText(run.runId, stdout, stderr), `[${state}]`].filter((part) => part !== "").join("\n"),
      data: { service: viewRun(run), readiness: readiness?.state ?? null, stdout, stderr },
      failed: !running || (readiness !== null && readiness.state !== "ready"),
    };
  },

  ready: async (given, { client, signal }) => {
    requireArguments("services", "ready", given, "runId");
    const body = { timeoutMs: given.readyMs ?? READY_MS };
    const { run, readiness } = await client.ready({ params: { runId: given.runId }, body }, signal);
    return {
      text: readinessText(run, failureKindOf(run), readiness),
      data: { service: viewRun(run), readiness: readiness.state },
      failed: readiness.state !== "ready",
    };
  },

  logs: async (given, { client, signal }) => {
    requireArguments("services", "logs", given, "runId");
    const query = { stream: given.stream ?? ("stdout" as const), lines: given.lines ?? 200 };
    const piece = await client.log({ params: { runId: given.runId }, query }, signal);
    const log = viewOutput([piece], query.stream);
    return { text: outputText(given.runId, log, viewOutput([], "stderr")), data: { log } };
  },

  stop: async (given, { client, signal }) => {
    requireArguments("services", "stop", given, "runId");
    const { outcome, survivors, run } = await client.kill(
      { params: { runId: given.runId }, body: {} },
      signal,
    );
    return {
      text: `${given.runId}: ${killText(outcome, survivors.length)}`,
      data: { service: viewRun(run), outcome },
      failed: outcome === "survivors" || outcome === "unknown",
    };
  },
};

/** Says that a service listens on its port, or why it does not. */
function readinessText(
  run: RunRecord,
  failure: string | null,
  { state, detail }: { readonly state: string; readonly detail: string | null },
): string {
  const where = `port ${run.service?.port ?? "unknown"}`;
  const ended = run.state === "exited";
  const text =
    state === "ready"
      ? `${run.runId} is running and listens on ${where}`
      : state === "timeout" && ended
        ? `${run.runId} did not listen on ${where} in time and was stopped`
        : ended
          ? `${stateText(run, failure)} before it listened on ${where}`
          : `${stateText(run, failure)}, and does not listen on ${where} yet`;
  return detail === null ? text : `${text} (${detail})`;
}
