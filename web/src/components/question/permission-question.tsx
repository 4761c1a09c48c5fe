import { useSignal } from "@preact/signals";
import { request } from "../../api/client.js";
import type { Permission } from "../../api/types.js";
import type { RequestOf } from "../../../../src/api/contract.js";
import { ErrorBox } from "../error-box.js";
import { FieldList } from "../field-list.js";
import { TimeUntil } from "../time-ago.js";
import { type Action, useAction } from "../use-action.js";
import { ElicitationForm } from "./elicitation-form.js";
import { PagedQuestion } from "./paged-question.js";
import { useAnswerDelay } from "./use-answer-delay.js";
import { VerdictBadge } from "./verdict.js";

type Answer = RequestOf<"acpAnswer">["body"];

interface PermissionQuestionProps {
  readonly id: string;
  /** After an answer. */
  readonly onAnswered?: () => void;
  /** Without the facts about its session, in the view of that session. */
  readonly inSession?: boolean;
}

/** A permission request of an agent, or its question to the user, with everything that the agent said about it. */
export function PermissionQuestion({ id, onAnswered, inSession = false }: PermissionQuestionProps) {
  const action = useAction();
  const late = useSignal(false);
  return (
    <PagedQuestion
      id={id}
      read={(query, signal) => request("acpQuestion", { params: { id }, query, signal })}
      head={({ permission }) => <PermissionHead permission={permission} inSession={inSession} />}
      answer={({ permission, form, pages }, digest, reload) => {
        if (permission.decision !== null) return null;
        if (pages === 0)
          return <p>The agent runs at another gateway. Open the dashboard of that gateway to answer.</p>;
        const send = (answer: Answer): void =>
          action.run(async () => {
            const shown = digest === null ? {} : { digest };
            const { decided } = await request("acpAnswer", { params: { id }, body: { ...shown, ...answer } });
            late.value = !decided;
            reload();
            onAnswered?.();
          });
        return (
          <div class="answer">
            {action.error !== null && <ErrorBox error={action.error} />}
            {late.value && <p role="status">The answer came too late: nothing was changed by it.</p>}
            {form === null ? (
              <PermissionButtons permission={permission} digest={digest} action={action} send={send} />
            ) : (
              <ElicitationForm key={id} form={form} busy={action.busy} send={send} />
            )}
          </div>
        );
      }}
    />
  );
}

function PermissionHead({
  permission,
  inSession,
}: {
  readonly permission: Permission;
  readonly inSession: boolean;
}) {
  const { id, sessionId, sessionKey, kind, title, toolCallId, expiresAt, decision } = permission;
  return (
    <>
      <p class="question-title">
        <VerdictBadge decision={decision} />
        <b>
          <bdi>{kind === null ? "" : `${kind}: `}</bdi>
          <bdi>{title ?? toolCallId}</bdi>
        </b>
        {decision === null ? (
          <span class="quiet">
            expires <TimeUntil at={expiresAt} />
          </span>
        ) : (
          <span class="quiet" role="status">
            by {decision.actor}
          </span>
        )}
      </p>
      {!inSession && (
        <FieldList
          fields={[
            ["Request", <code key="id">{id}</code>],
            [
              "Session",
              <a key="session" href={`/sessions/${sessionId}`}>
                <bdi>{sessionKey}</bdi>
              </a>,
            ],
          ]}
        />
      )}
    </>
  );
}

interface PermissionButtonsProps {
  readonly permission: Permission;
  readonly digest: string | null;
  readonly action: Action;
  readonly send: (answer: Answer) => void;
}

const SCOPES = {
  once: "only this request",
  session: "always in this session",
  agent: "always for this agent",
} as const;

function PermissionButtons({ permission, digest, action, send }: PermissionButtonsProps) {
  const armed = useAnswerDelay(permission.id);
  const scope = useSignal<keyof typeof SCOPES>("once");
  const answer = (verdict: "allow" | "deny", optionId?: string): void => {
    const chosen = optionId === undefined ? {} : { optionId };
    const remember =
      scope.value === "once" || optionId !== undefined ? {} : { remember: { scope: scope.value } };
    send({ verdict, ...chosen, ...remember });
  };
  const mayAllow = armed && digest !== null && !action.busy;
  return (
    <>
      <div class="answer-buttons">
        <button type="button" class="primary" disabled={!mayAllow} onClick={() => answer("allow")}>
          Allow
        </button>
        <button type="button" class="danger" disabled={!armed || action.busy} onClick={() => answer("deny")}>
          Deny
        </button>
        <label class="field-inline">
          for
          <select
            value={scope.value}
            onChange={(event) => (scope.value = event.currentTarget.value as keyof typeof SCOPES)}
          >
            {Object.entries(SCOPES).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
        {digest === null && <span class="quiet">Read to the last page to allow it.</span>}
      </div>
      {scope.value !== "once" && (
        <p class="quiet">
          The answer becomes a rule for requests that execute the same under the same kind and title.{" "}
          <code>holdfast acp permissions rules</code> lists it.
        </p>
      )}
      {permission.options.length > 0 && (
        <details class="more">
          <summary>Answers that the agent offers</summary>
          <div class="answer-buttons">
            {permission.options.map(({ optionId, name, kind }) => {
              const verdict = kind.startsWith("allow") ? "allow" : "deny";
              const disabled = verdict === "allow" ? !mayAllow : !armed || action.busy;
              return (
                <button
                  key={optionId}
                  type="button"
                  disabled={disabled}
                  onClick={() => answer(verdict, optionId)}
                >
                  <bdi>{name}</bdi> <span class="quiet">({kind.replaceAll("_", " ")})</span>
                </button>
              );
            })}
          </div>
        </details>
      )}
    </>
  );
}
