import { useSignal } from "@preact/signals";
import { request } from "../../api/client.js";
import type { Approval } from "../../api/types.js";
import { ErrorBox } from "../../components/error-box.js";
import { FieldList } from "../../components/field-list.js";
import { PagedQuestion } from "../../components/question/paged-question.js";
import { PermissionQuestion } from "../../components/question/permission-question.js";
import { useAnswerDelay } from "../../components/question/use-answer-delay.js";
import { VerdictBadge } from "../../components/question/verdict.js";
import { TimeAgo, TimeUntil } from "../../components/time-ago.js";
import { useAction } from "../../components/use-action.js";
import type { ViewProps } from "../../router/view.js";
import { NamedSessionLink } from "./session-link.js";

/** One question to the operator: a command of a session, or a permission request of an agent. */
export function ApprovalView({ params: { id = "" } }: ViewProps) {
  return (
    <>
      <p class="back">
        <a href="/approvals">All approvals</a>
      </p>
      {id.startsWith("prm_") ? (
        <>
          <h1 class="title">Permission request</h1>
          <PermissionQuestion key={id} id={id} />
        </>
      ) : (
        <CommandQuestion key={id} id={id} />
      )}
    </>
  );
}

function CommandQuestion({ id }: { readonly id: string }) {
  return (
    <PagedQuestion
      id={id}
      read={(query, signal) => request("showApproval", { params: { id }, query, signal })}
      head={({ approval }) => <ApprovalHead approval={approval} />}
      answer={({ approval, pages }, digest, reload) =>
        approval.decision !== null ? null : pages === 0 ? (
          <p>
            The caller waits at gateway <code>{approval.gatewayInstanceId}</code>. Open the dashboard of that
            gateway to see all of it and to answer.
          </p>
        ) : (
          <CommandAnswer approval={approval} digest={digest} reload={reload} />
        )
      }
    />
  );
}

function ApprovalHead({ approval }: { readonly approval: Approval }) {
  const { id, sessionId, command, rule, askedAt, expiresAt, decision } = approval;
  return (
    <>
      <h1 class="title">
        {decision === null ? "May this run?" : "Command of a session"} <VerdictBadge decision={decision} />
      </h1>
      {decision !== null && (
        <>
          <p role="status">{decisionText(decision)}</p>
          <pre class="command">{command}</pre>
        </>
      )}
      <FieldList
        fields={[
          ["Approval", <code key="id">{id}</code>],
          ["Session", <NamedSessionLink key="session" id={sessionId} />],
          ["Reason", rule === null ? "no exec rule allows it" : `exec rule ${rule + 1} of the session asks`],
          ["Asked", <TimeAgo key="asked" at={askedAt} />],
          ["Expires", decision === null ? <TimeUntil key="expires" at={expiresAt} /> : null],
        ]}
      />
    </>
  );
}

function decisionText({ verdict, actor }: NonNullable<Approval["decision"]>): string {
  if (verdict === "expired") return `It has expired and was not run: ${actor}.`;
  return `${actor} has ${verdict === "allow" ? "allowed" : "denied"} it.`;
}

interface CommandAnswerProps {
  readonly approval: Approval;
  readonly digest: string | null;
  readonly reload: () => void;
}

function CommandAnswer({ approval: { id }, digest, reload }: CommandAnswerProps) {
  const action = useAction();
  const armed = useAnswerDelay(id);
  const late = useSignal(false);
  const decide = (verdict: "allow" | "deny") =>
    action.run(async () => {
      const shown = digest === null ? {} : { digest };
      const { decided } = await request("decideApproval", { params: { id }, body: { verdict, ...shown } });
      late.value = !decided;
      reload();
    });
  return (
    <div class="answer">
      {action.error !== null && <ErrorBox error={action.error} />}
      {late.value && <p role="status">The answer came too late: nothing was changed by it.</p>}
      <div class="answer-buttons">
        <button
          type="button"
          class="primary"
          disabled={!armed || digest === null || action.busy}
          onClick={() => decide("allow")}
        >
          Allow once
        </button>
        <button type="button" class="danger" disabled={!armed || action.busy} onClick={() => decide("deny")}>
          Deny
        </button>
        {digest === null ? (
          <span class="quiet">Read to the last page to allow it.</span>
        ) : (
          <span class="quiet digest">
            Digest <code>{digest}</code>
          </span>
        )}
      </div>
    </div>
  );
}
