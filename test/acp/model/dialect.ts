/** What an agent wants of the model. */
export interface Ask {
  /** `aside`: no tool was offered (titles, summaries, checks). */
  readonly kind: "prompt" | "tool-result" | "aside";
  readonly streamed: boolean;
  readonly tools: readonly OfferedTool[];
}

/** A function the model may call, as JSON Schema has it. */
export interface OfferedTool {
  readonly name: string;
  readonly properties: Readonly<Record<string, { readonly type?: unknown; readonly items?: unknown }>>;
  readonly required: readonly string[];
}

export type Reply =
  | { readonly text: string }
  | { readonly call: { readonly name: string; readonly args: Readonly<Record<string, unknown>> } };

/** One way of speaking to a model over HTTP. */
export interface Dialect {
  matches(path: string): boolean;
  read(body: Json, path: string): Ask;
  /** The events of a stream. */
  stream(reply: Reply): readonly string[];
  /** The whole answer, where it was not asked for as a stream. */
  whole(reply: Reply): unknown;
}

export type Json = Readonly<Record<string, unknown>>;

export const isJson = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const listOf = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isJson) : []);

export function toolOf(name: unknown, parameters: unknown): OfferedTool {
  const schema = isJson(parameters) ? parameters : {};
  return {
    name: String(name),
    properties: (isJson(schema["properties"]) ? schema["properties"] : {}) as OfferedTool["properties"],
    required: Array.isArray(schema["required"]) ? schema["required"].map(String) : [],
  };
}

export const event = (data: unknown, name?: string): string =>
  `${name === undefined ? "" : `event: ${name}\n`}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
