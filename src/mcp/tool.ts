import type { ToolAnnotations } from "@modelcontextprotocol/server";
import type { z } from "zod";
import type { SessionConnection } from "./session/session-connection.js";
import { type JsonSchema, objectSchema } from "./json-schema.js";

/** The answer of a tool. */
export interface ToolAnswer {
  /** For models: what happened, and what can be done next. */
  readonly text: string;
  /** The same as data, with the tool's output schema. */
  readonly data: Readonly<Record<string, unknown>>;
  /** The work was done and did not succeed. */
  readonly failed?: boolean;
  /** The task in which the work continues, for clients that know MCP tasks. Null: the work has ended, or has no task. */
  readonly taskId?: string | null;
}

/** A call of a tool. */
export interface ToolCall extends SessionConnection {
  /** Aborts when the client cancels the call or leaves. */
  readonly signal: AbortSignal;
  /** Null: the client did not ask for reports of progress. */
  readonly reportProgress: ((message: string) => void) | null;
}

export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly annotations: ToolAnnotations;
  readonly inputSchema: JsonSchema & { readonly type: "object" };
  readonly outputSchema: JsonSchema & { readonly type: "object" };
  /** Rejects with ArgumentsRefused. */
  readonly call: (given: unknown, call: ToolCall) => Promise<ToolAnswer>;
}

/** The arguments of a call do not match the tool's input schema. */
export class ArgumentsRefused extends Error {}

interface ToolSpec<Input extends z.ZodType, Output extends z.ZodType> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly annotations: ToolAnnotations;
  readonly input: Input;
  readonly output: Output;
  readonly run: (
    input: z.output<Input>,
    call: ToolCall,
  ) => Promise<ToolAnswer & { readonly data: z.input<Output> }>;
}

export function defineTool<Input extends z.ZodType, Output extends z.ZodType>(
  spec: ToolSpec<Input, Output>,
): Tool {
  const { input, output, run, ...rest } = spec;
  return {
    ...rest,
    annotations: { openWorldHint: false, ...rest.annotations },
    inputSchema: objectSchema(input, "input"),
    outputSchema: objectSchema(output, "output"),
    call: async (given, call) => {
      const parsed = input.safeParse(withoutNulls(given ?? {}));
      if (!parsed.success) throw new ArgumentsRefused(problemText(spec.name, parsed.error));
      return run(parsed.data, call);
    },
  };
}

/** Null stands for an argument that is left out. */
function withoutNulls(given: unknown): unknown {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return given;
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
}

const MAX_PROBLEMS = 5;

function problemText(tool: string, { issues }: z.ZodError): string {
  const lines = issues.slice(0, MAX_PROBLEMS).map(({ path, message }) => {
    const field = path.join(".");
    return `${field === "" ? "arguments" : field}: ${message}`;
  });
  return `${tool}: ${lines.join("; ").slice(0, 1_000)}. Nothing was done; call it again with corrected arguments.`;
}

/** Throws ArgumentsRefused unless the arguments that an action needs are given. */
export function requireArguments<Given extends object, Name extends keyof Given & string>(
  tool: string,
  action: string,
  given: Given,
  ...names: readonly Name[]
): asserts given is Given & { readonly [K in Name]: NonNullable<Given[K]> } {
  const missing = names.filter((name) => given[name] === undefined || given[name] === null);
  if (missing.length > 0)
    throw new ArgumentsRefused(
      `${tool}: ${action} needs ${missing.join(" and ")}. Nothing was done; call it again with ${missing.length === 1 ? "it" : "them"}.`,
    );
}
