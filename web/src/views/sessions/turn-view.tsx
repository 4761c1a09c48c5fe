import { Badge, type Tone } from "../../components/badge.js";
import { Elapsed, TimeAgo } from "../../components/time-ago.js";
import type { Item, PlanEntry, Turn, TurnLog } from "./turn-log.js";
import { LongText } from "./long-text.js";
import { ToolCallBox } from "./tool-call.js";
import { visibleText } from "../../components/visible-text.js";

interface TurnViewProps {
  readonly turn: Turn;
  /** Undefined: its updates are not read. */
  readonly log: TurnLog | undefined;
  /** Changes with the log. */
  readonly version: number;
}

/** One prompt, and what the agent did and said. */
export function TurnView({ turn, log }: TurnViewProps) {
  const { ordinal, prompt, askedBy, attachments, createdAt, startedAt, endedAt, text, toolCalls } = turn;
  const known = log !== undefined && (log.items.length > 0 || log.plan.length > 0);
  return (
    <article class="turn" aria-label={`Turn ${ordinal}`}>
      <header class="turn-prompt">
        <p class="turn-meta quiet">
          <b>Prompt {ordinal}</b>
          <bdi class="cut">{askedBy}</bdi>
          <TimeAgo at={createdAt} />
          <TurnBadge turn={turn} />
          {startedAt !== null && <Elapsed from={startedAt} to={endedAt} />}
        </p>
        <LongText text={visibleText(prompt)} />
        {attachments.length > 0 && (
          <p class="quiet">with {attachments.map(({ type, name }) => `${type} ${name}`).join(", ")}</p>
        )}
      </header>
      {known ? (
        <>
          {!log.whole && <p class="quiet">The beginning of this turn is not shown.</p>}
          <Plan entries={log.plan} />
          {log.items.map((item, at) => (
            <TurnItem key={at} item={item} log={log} />
          ))}
        </>
      ) : (
        <>
          {toolCalls.map(({ id, title, kind, status }) => (
            <ToolCallBox key={id} tool={{ title, kind, status, texts: [], changes: [] }} />
          ))}
          {text !== "" && <LongText class="answer-text" text={visibleText(text)} />}
        </>
      )}
      <TurnEnd turn={turn} />
    </article>
  );
}

function TurnItem({ item, log }: { readonly item: Item; readonly log: TurnLog }) {
  switch (item.type) {
    case "message":
      return <LongText class="answer-text" text={item.text} />;
    case "thought":
      return (
        <details class="thought">
          <summary>Thought</summary>
          <LongText text={item.text} />
        </details>
      );
    case "notice":
      return <p class="turn-notice">{item.text}</p>;
    case "tool": {
      const tool = log.tools.get(item.id);
      return tool === undefined ? null : <ToolCallBox tool={tool} />;
    }
  }
}

function Plan({ entries }: { readonly entries: readonly PlanEntry[] }) {
  if (entries.length === 0) return null;
  const done = entries.filter(({ status }) => status === "completed").length;
  return (
    <section class="plan" aria-label="Plan">
      <p class="quiet">
        Plan: {done} of {entries.length} done
      </p>
      <ol>
        {entries.map(({ content, status }, at) => (
          <li key={at} class={status === "in_progress" ? "plan-now" : undefined}>
            <span aria-hidden="true">
              {status === "completed" ? "✓" : status === "in_progress" ? "▸" : "○"}
            </span>{" "}
            <bdi>{content}</bdi>
            <span class="visually-hidden">, {status.replaceAll("_", " ")}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

const TONES: Readonly<Record<NonNullable<Turn["outcome"]>, Tone>> = {
  completed: "good",
  cancelled: "quiet",
  interrupted: "bad",
  "cancel-unconfirmed": "bad",
  failed: "bad",
};

function TurnBadge({ turn: { state, outcome, stalledAt } }: { readonly turn: Turn }) {
  if (state === "queued") return <Badge tone="wait">queued</Badge>;
  if (outcome !== null) return <Badge tone={TONES[outcome]}>{outcome}</Badge>;
  return stalledAt === null ? <Badge tone="live">running</Badge> : <Badge tone="wait">silent</Badge>;
}

/** Notes for a person about the end of the turn. */
function TurnEnd({ turn }: { readonly turn: Turn }) {
  const { problem, stopReason, outcome, audit, droppedUpdates } = turn;
  const early = outcome === "completed" && stopReason !== null && stopReason !== "end_turn";
  const left = audit?.left.length ?? 0;
  const alive = audit?.reaped === true ? audit.survivors.length : left;
  return (
    <>
      {problem !== null && (
        <p class="problem" role="alert">
          {problem.message}
        </p>
      )}
      {early && <p class="turn-notice">The agent stopped early: {stopReason}.</p>}
      {droppedUpdates > 0 && (
        <p class="quiet">{droppedUpdates.toLocaleString()} updates were not kept: the turn had too many.</p>
      )}
      {left > 0 && (
        <p class="turn-notice">
          {left} {left === 1 ? "process" : "processes"} outlived the turn
          {alive === 0 ? " and were stopped." : `; ${alive} still ran when it ended.`}
        </p>
      )}
    </>
  );
}
