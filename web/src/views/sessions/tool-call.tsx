import { Badge, type Tone } from "../../components/badge.js";
import type { FileChange, ToolCall } from "./turn-log.js";
import { type DiffLine, lineDiff } from "./line-diff.js";
import { LongText } from "./long-text.js";

/** A Map: the status comes from the agent and may be `constructor`. */
const TONES = new Map<string, Tone>([
  ["pending", "wait"],
  ["in_progress", "live"],
  ["completed", "good"],
  ["failed", "bad"],
]);

/** A tool call of the agent: files that it changes are open, other content is opened by a click. */
export function ToolCallBox({ tool: { title, kind, status, texts, changes } }: { readonly tool: ToolCall }) {
  const head = (
    <>
      <Badge tone={TONES.get(status) ?? "quiet"}>{status.replaceAll("_", " ")}</Badge>
      {kind !== "other" && <span class="quiet">{kind}</span>}
      <bdi class="tool-title">{title}</bdi>
    </>
  );
  return (
    <div class="tool">
      {texts.length === 0 ? (
        <div class="tool-head">{head}</div>
      ) : (
        <details>
          <summary class="tool-head">{head}</summary>
          {texts.map((text, at) => (
            <LongText key={at} class="tool-output" text={text} />
          ))}
        </details>
      )}
      {changes.map((change, at) => (
        <FileDiff key={at} change={change} />
      ))}
    </div>
  );
}

/** Lines of a diff that are laid out. */
const MAX_LINES = 400;
const SIGNS = { "+": "added", "-": "removed", " ": "unchanged" } as const;

function FileDiff({ change: { path, before, after } }: { readonly change: FileChange }) {
  const lines = lineDiff(before, after);
  const count = (sign: DiffLine["sign"]): number => lines.filter((line) => line?.sign === sign).length;
  return (
    <figure class="diff">
      <figcaption>
        <bdi class="mono anywhere">{path}</bdi>
        <span class="number">
          <span class="diff-added">+{count("+")}</span> <span class="diff-removed">-{count("-")}</span>
        </span>
      </figcaption>
      <div class="diff-lines mono" role="list" aria-label={`Changes of ${path}`} tabIndex={0}>
        {lines.slice(0, MAX_LINES).map((line, at) =>
          line === null ? (
            <div key={at} class="diff-gap" role="listitem">
              ⋯
            </div>
          ) : (
            <div key={at} role="listitem" class={`diff-${SIGNS[line.sign]}`}>
              <span class="diff-sign" aria-label={SIGNS[line.sign]}>
                {line.sign}
              </span>
              {line.text}
            </div>
          ),
        )}
        {lines.length > MAX_LINES && (
          <div class="diff-gap" role="listitem">
            {(lines.length - MAX_LINES).toLocaleString()} more lines
          </div>
        )}
      </div>
    </figure>
  );
}
