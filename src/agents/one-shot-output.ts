import type { CliOutput } from "../config/agents.js";

/** Result of an agent's command. The text is not sanitized. */
export interface CliResult {
  readonly text: string;
  /** For a resume; null: unknown. */
  readonly sessionId: string | null;
  /** Error reported by the agent; null: none. */
  readonly error: string | null;
}

type Json = Readonly<Record<string, unknown>>;

/** Limits per output: agents print some thousand documents, and few other lines that begin like one. */
const MAX_DOCUMENTS = 100_000;
const MAX_UNREADABLE = 1_000;

/**
 * The result in a command's complete output. Null: the output has another format, because the command failed early or is
 * another version. Unknown parts are ignored.
 */
export function parseCliOutput(output: CliOutput, stdout: string): CliResult | null {
  return output === "text"
    ? { text: stdout.trim(), sessionId: null, error: null }
    : PARSERS[output](parseDocuments(stdout));
}

const PARSERS: Readonly<
  Record<Exclude<CliOutput, "text">, (documents: readonly Json[]) => CliResult | null>
> = {
  /** Claude, Cursor, Qwen: a document of type `result`, alone or as the last of several. */
  result(documents) {
    const result = documents.findLast(({ type }) => type === "result");
    if (result === undefined) return null;
    const text = asText(result["result"]) ?? "";
    const failed = result["is_error"] === true;
    const why = asText(asObject(result["error"])["message"]) ?? (text || asText(result["subtype"]));
    return {
      text: failed ? "" : text,
      sessionId: asText(result["session_id"]),
      error: failed ? (why ?? "no reason given") : null,
    };
  },

  codex(documents) {
    const started = documents.find(({ type }) => type === "thread.started");
    if (started === undefined) return null;
    const answer = documents
      .filter(({ type }) => type === "item.completed")
      .map(({ item }) => asObject(item))
      .findLast(({ type }) => type === "agent_message");
    const failed = documents.findLast(({ type }) => type === "turn.failed" || type === "error");
    const completed = documents.some(({ type }) => type === "turn.completed");
    return {
      text: asText(answer?.["text"]) ?? "",
      sessionId: asText(started["thread_id"]),
      error: completed || failed === undefined ? null : errorMessage(failed),
    };
  },

  gemini(documents) {
    const answer = documents.findLast((document) => "response" in document || "error" in document);
    if (answer === undefined) return null;
    return {
      text: asText(answer["response"]) ?? "",
      sessionId: asText(answer["session_id"]),
      error: "error" in answer ? errorMessage(answer) : null,
    };
  },

  opencode(documents) {
    const sessionId = documents.map(({ sessionID }) => asText(sessionID)).find((id) => id !== null);
    if (sessionId === undefined) return null;
    const failed = documents.findLast(({ type }) => type === "error");
    return {
      text: documents
        .filter(({ type }) => type === "text")
        .map(({ part }) => asText(asObject(part)["text"]) ?? "")
        .join("\n"),
      sessionId,
      error: failed === undefined ? null : errorMessage(failed),
    };
  },

  pi(documents) {
    const header = documents.find(({ type }) => type === "session");
    const message = asObject(
      documents.findLast(
        ({ type, message: ended }) => type === "message_end" && asObject(ended)["role"] === "assistant",
      )?.["message"],
    );
    if (header === undefined) return null;
    return {
      text: textParts(message),
      sessionId: asText(header["id"]),
      error:
        message["stopReason"] === "error" ? (asText(message["errorMessage"]) ?? "no reason given") : null,
    };
  },
};

/** The agent's text in one document of its live output; null: none. */
function agentTextIn(output: CliOutput, document: Json | null): string | null {
  if (document === null) return null;
  const { type } = document;
  switch (output) {
    case "result":
      return type === "assistant" ? textParts(document["message"]) : null;
    case "codex": {
      const item = asObject(document["item"]);
      return type === "item.completed" && item["type"] === "agent_message" ? asText(item["text"]) : null;
    }
    case "opencode":
      return type === "text" ? asText(asObject(document["part"])["text"]) : null;
    case "pi":
      return type === "message_end" && asObject(document["message"])["role"] === "assistant"
        ? textParts(document["message"])
        : null;
    case "gemini":
    case "text":
      return null;
  }
}

/** Null: the line is no JSON object. */
function parseDocument(line: string): Json | null {
  // Checked first, because an exception of JSON.parse is much slower.
  const parsed = line.startsWith("{") ? parseJson(line) : undefined;
  return isObject(parsed) ? parsed : null;
}

function textParts(message: unknown): string {
  const { content } = asObject(message);
  const parts = Array.isArray(content) ? content.map(asObject) : [];
  return parts.map(({ type, text }) => (type === "text" ? (asText(text) ?? "") : "")).join("");
}

/** One document, an array of documents, or one per line among other lines. */
function parseDocuments(stdout: string): Json[] {
  const whole = parseJson(stdout);
  if (whole !== undefined) return (Array.isArray(whole) ? whole : [whole]).filter(isObject);
  const lines = parseDocumentLines(stdout);
  // One document over several lines, after another line.
  if (lines.length === 0) return [parseJson(stdout.slice(stdout.indexOf("\n{")))].filter(isObject);
  return lines;
}

/** Empty if a limit is exceeded, so that a hostile output does not block the gateway. */
function parseDocumentLines(stdout: string): Json[] {
  const documents: Json[] = [];
  let unreadable = 0;
  for (let from = 0, end = 0; from < stdout.length; from = end + 1) {
    const at = stdout.indexOf("\n", from);
    end = at < 0 ? stdout.length : at;
    if (stdout[from] !== "{") continue;
    const document = parseDocument(stdout.slice(from, end));
    if (document === null) unreadable++;
    else documents.push(document);
    if (unreadable > MAX_UNREADABLE || documents.length > MAX_DOCUMENTS) return [];
  }
  return documents;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function asObject(value: unknown): Json {
  return isObject(value) ? value : {};
}

function asText(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function errorMessage(document: Json): string {
  const { error, message } = document;
  const inner = asObject(error);
  return (
    asText(inner["message"]) ??
    asText(asObject(inner["data"])["message"]) ??
    asText(message) ??
    asText(error) ??
    asText(inner["name"]) ??
    "no reason given"
  );
}

/** A longer line is skipped: its text is also in the result. */
const MAX_LINE_CHARS = 8 * 1024 * 1024;

/** Extracts the agent's text from its command's live output. The text is not sanitized. */
export class CliOutputStream {
  readonly #output: CliOutput;
  readonly #decoder = new TextDecoder();
  #line = "";
  #tooLong = false;

  constructor(output: CliOutput) {
    this.#output = output;
  }

  push(bytes: Uint8Array): string {
    const text = this.#decoder.decode(bytes, { stream: true });
    if (this.#output === "text") return text;
    const [first = "", ...more] = text.split("\n");
    let spoken = "";
    this.#add(first);
    for (const next of more) {
      spoken += this.#endLine();
      this.#add(next);
    }
    return spoken;
  }

  #add(piece: string): void {
    this.#tooLong ||= this.#line.length + piece.length > MAX_LINE_CHARS;
    this.#line = this.#tooLong ? "" : this.#line + piece;
  }

  #endLine(): string {
    const line = this.#tooLong ? null : agentTextIn(this.#output, parseDocument(this.#line));
    this.#line = "";
    this.#tooLong = false;
    return line === null || line === "" ? "" : `${line.trimEnd()}\n`;
  }
}
