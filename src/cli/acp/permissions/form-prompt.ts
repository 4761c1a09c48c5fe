import { GatewayError } from "../../../api/error-response.js";
import type { RequestOf, ResponseOf } from "../../../api/contract.js";
import { askUntil, showPaged, verdictIn } from "../../print/terminal-prompt.js";
import { toOneLine } from "../view/notice-texts.js";

type Form = NonNullable<ResponseOf<"acpQuestion">["form"]>;
type Field = Form["fields"][number];
type Answer = Pick<RequestOf<"acpAnswer">["body"], "verdict" | "content">;
type Content = NonNullable<Answer["content"]>;

interface FormPromptOptions {
  /** The whole question. */
  readonly shown: readonly string[];
  readonly expiry: string;
  readonly over: AbortSignal;
  readonly interrupted: () => void;
}

/**
 * Asks for the fields of a form, or whether an address was opened, and sends the answer. An answer that does not fit is
 * asked for again. False: the question stays open.
 */
export async function answerForm(
  form: Form,
  { shown, expiry, over, interrupted }: FormPromptOptions,
  send: (answer: Answer) => Promise<void>,
): Promise<boolean> {
  if (!(await showPaged(shown, process.stderr, over))) {
    if (!over.aborted) interrupted();
    return false;
  }
  if (form.url !== null) process.stderr.write(`  open it yourself: ${toOneLine(form.url)}\n`);
  const question = form.url === null ? "answer it?" : "done?";
  const line = await askUntil(`  ${question} [y/N/later] (${expiry}) `, over, interrupted);
  const verdict = line === null ? null : verdictIn(line);
  if (verdict === null) return false;
  if (verdict === "deny") {
    await send({ verdict });
    return true;
  }
  for (;;) {
    const content = await askFields(form.fields, over, interrupted);
    if (content === null) return false;
    try {
      await send({ verdict, content });
      return true;
    } catch (error) {
      if (!(error instanceof GatewayError) || error.code !== "BAD_INPUT") throw error;
      process.stderr.write(`  ${toOneLine(error.message)}\n`);
    }
  }
}

/** Null: the question ended. An empty line leaves a field out, or takes its default. */
async function askFields(
  fields: readonly Field[],
  over: AbortSignal,
  interrupted: () => void,
): Promise<Content | null> {
  const given: [string, Content[string]][] = [];
  for (const field of fields) {
    const line = await askUntil(`  ${fieldPrompt(field)}: `, over, interrupted);
    if (line === null) return null;
    if (line !== "") given.push([field.name, field.type === "array" ? splitValues(line) : line]);
  }
  return Object.fromEntries(given);
}

function fieldPrompt({ name, type, required, default: given }: Field): string {
  const kind = type === "array" ? "values, separated by commas" : type;
  const without = given === null ? (required ? "" : ", optional") : `, default ${String(given)}`;
  return toOneLine(`${name} (${kind}${without})`);
}

function splitValues(line: string): string[] {
  return line
    .split(",")
    .map((value) => value.trim())
    .filter((value) => value !== "");
}

/** How to answer the question on the command line. */
export function answerHint({ url, fields }: Form, id: string): string {
  const allow = `holdfast acp permissions allow ${id}`;
  if (url !== null) return `open the address yourself, then: ${allow}`;
  const values = fields.filter((field) => field.required && field.default === null);
  const options = values.map(({ name, type }) => ` --answer '${toOneLine(name)}=<${type}>'`);
  return `to answer: ${allow}${options.join("")}; to decline: \`deny\`, to dismiss: \`cancel\``;
}
