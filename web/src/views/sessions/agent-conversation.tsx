import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { ResponseOf } from "../../../../src/api/contract.js";
import { request } from "../../api/client.js";
import { ErrorBox } from "../../components/error-box.js";
import { PermissionQuestion } from "../../components/question/permission-question.js";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { viewerIsOperator } from "../../live/viewer.js";
import { CloseSession } from "./close-session.js";
import { PromptBox } from "./prompt-box.js";
import { AgentBadge } from "./session-badges.js";
import { SessionFacts, SessionRuns } from "./session-facts.js";
import { TurnView } from "./turn-view.js";
import { useUpdates } from "./use-session-updates.js";

type Status = ResponseOf<"sessionStatus">;
type Shown = ResponseOf<"acpShow">;

/** Turns that are shown at first. */
const TURNS = 30;
const MAX_TURNS = 1_000;
/** Updates that are read at first: the text of a few turns. */
const UPDATES = 4_000;
/** So near to the end of the page, new text scrolls it. */
const NEAR_END_PX = 120;

interface AgentConversationProps {
  readonly status: Status;
  readonly reload: () => void;
}

/** A session with an ACP agent: its turns, its questions, and the next prompt. */
export function AgentConversation({ status, reload }: AgentConversationProps) {
  const { id } = status.session;
  const limit = useSignal(TURNS);
  const read = useResource(
    `agent ${id} ${limit.value}`,
    async (signal) => {
      const params = { id };
      const [shown, { turns }] = await Promise.all([
        request("acpShow", { params, signal }),
        request("acpHistory", { params, query: { limit: limit.peek() }, signal }),
      ]);
      return { shown, turns: turns.toReversed() };
    },
    { runIds: [] },
  );
  const known = useRef<typeof read.value>(undefined);
  known.current = read.value ?? known.current;
  const value = known.current;
  if (value === undefined)
    return read.error === null ? (
      <p class="quiet">Loading…</p>
    ) : (
      <ErrorBox error={read.error} retry={read.reload} />
    );
  const { shown, turns } = value;
  const onChange = (): void => {
    read.reload();
    reload();
  };
  return (
    <>
      <h1 class="title">
        <bdi>{status.session.key}</bdi> <AgentBadge state={shown.session.state} />
      </h1>
      {read.error !== null && <ErrorBox error={read.error} retry={read.reload} />}
      <CloseSession status={status} onClosed={onChange} />
      {shown.session.problem !== null && <p class="problem">{shown.session.problem.message}</p>}
      <details class="more">
        <summary>About this session</summary>
        <SessionFacts status={status} />
        <p class="quiet">
          <code class="anywhere">{shown.session.command}</code> in{" "}
          <code class="anywhere">{shown.session.cwd}</code>
        </p>
        {shown.stderr !== "" && <pre class="command stderr">{shown.stderr}</pre>}
      </details>
      <SessionRuns runs={status.runs} />
      <Turns
        shown={shown}
        turns={turns}
        onChange={onChange}
        older={
          turns.length >= limit.value && limit.value < MAX_TURNS ? () => (limit.value = MAX_TURNS) : null
        }
      />
    </>
  );
}

interface TurnsProps {
  readonly shown: Shown;
  readonly turns: ResponseOf<"acpHistory">["turns"];
  readonly onChange: () => void;
  /** Null: all turns are shown. */
  readonly older: (() => void) | null;
}

function Turns({ shown, turns, onChange, older }: TurnsProps) {
  const { session, permissions } = shown;
  const id = session.sessionId;
  // Only the first value: later updates come by the stream.
  const from = useSignal(Math.max(0, session.seq - UPDATES));
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEffect(() => () => clearTimeout(timer.current ?? undefined), []);
  const soon = (): void => {
    timer.current ??= setTimeout(() => {
      timer.current = null;
      onChange();
    }, defaults.updatesCollectMs);
  };
  const { logs, version } = useUpdates(id, from.value, soon);
  const follow = useFollowEnd(version);
  const open = permissions.filter(({ decision }) => decision === null);
  const cut = turns.some(({ turnId }) => logs.get(turnId)?.whole === false);
  return (
    <>
      {older !== null && (
        <button type="button" class="plain" onClick={older}>
          Show older turns
        </button>
      )}
      {(cut || from.value > 0) && (
        <button type="button" class="plain" onClick={() => (from.value = 0)}>
          Show earlier updates of the agent
        </button>
      )}
      <div class="turns" role="log" aria-label="Conversation">
        {turns.length === 0 && <p class="quiet">No prompt was sent yet.</p>}
        {turns.map((turn) => (
          <TurnView key={turn.turnId} turn={turn} log={logs.get(turn.turnId)} version={version} />
        ))}
      </div>
      {open.map((permission) => (
        <section key={permission.id} class="permission" aria-label="Permission request">
          {viewerIsOperator() ? (
            <PermissionQuestion id={permission.id} inSession onAnswered={onChange} />
          ) : (
            <p>
              The agent waits for the operator:{" "}
              <bdi>{permission.title ?? permission.kind ?? permission.id}</bdi>
            </p>
          )}
        </section>
      ))}
      {session.closedAt === null && session.state !== "closing" && (
        <PromptBox
          sessionId={id}
          running={turns.some(({ state }) => state !== "ended")}
          onChange={() => {
            follow();
            onChange();
          }}
        />
      )}
    </>
  );
}

/** Keeps the end of the page in view while the person is there. Returns a function that goes to the end. */
function useFollowEnd(version: number): () => void {
  const atEnd = useRef(false);
  useEffect(() => {
    const update = (): void => {
      const left = document.documentElement.scrollHeight - window.scrollY - window.innerHeight;
      atEnd.current = left < NEAR_END_PX && window.scrollY > 0;
    };
    window.addEventListener("scroll", update, { passive: true });
    return () => window.removeEventListener("scroll", update);
  }, []);
  useLayoutEffect(() => {
    if (atEnd.current) window.scrollTo(0, document.documentElement.scrollHeight);
  }, [version]);
  return () => {
    atEnd.current = true;
    window.scrollTo(0, document.documentElement.scrollHeight);
  };
}
