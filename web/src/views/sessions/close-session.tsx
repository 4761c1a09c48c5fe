import { useSignal } from "@preact/signals";
import type { ResponseOf } from "../../../../src/api/contract.js";
import { request } from "../../api/client.js";
import { ConfirmDialog } from "../../components/confirm-dialog.js";
import { viewerIsOperator } from "../../live/viewer.js";

interface CloseSessionProps {
  readonly status: Pick<ResponseOf<"sessionStatus">, "session" | "acp" | "runs">;
  readonly onClosed: () => void;
}

/** A button that closes a session. Only the operator closes a session without an agent. */
export function CloseSession({ status: { session, acp, runs }, onClosed }: CloseSessionProps) {
  const asking = useSignal(false);
  const tree = useSignal(false);
  if (session.closedAt !== null || (acp === null && !viewerIsOperator())) return null;
  const close = async (): Promise<void> => {
    const params = { id: session.id };
    const left =
      acp === null
        ? await request("closeSession", { params, query: tree.value ? { tree: "1" } : {} })
        : await request("acpClose", { params, body: { tree: tree.value } });
    onClosed();
    const survivors = "survivors" in left ? left.survivors.length : 0;
    const open = left.children.filter(({ outcome }) => outcome === "open").length;
    const running = left.runs.filter(({ outcome }) => outcome === "running").length;
    if (survivors > 0)
      throw new Error(`${survivors} processes are alive; the session is closed when they are gone.`);
    if (tree.value && open + running > 0)
      throw new Error(`Not everything ended: ${open} sessions are open, ${running} runs continue.`);
  };
  return (
    <>
      <div class="answer-buttons">
        <button type="button" class="danger" onClick={() => (asking.value = true)}>
          Close the session
        </button>
      </div>
      {asking.value && (
        <ConfirmDialog
          title="Close this session?"
          action="Close the session"
          danger
          onConfirm={close}
          onClose={() => (asking.value = false)}
        >
          <p>
            <b>
              <bdi>{session.key}</bdi>
            </b>
          </p>
          <p>
            Its tokens end
            {acp === null ? "" : ", its agent and everything that the agent started is stopped"}.
            {acp === null && runs.length > 0 && ` Its ${runs.length} open runs continue.`}
          </p>
          <label class="check">
            <input
              type="checkbox"
              checked={tree.value}
              onChange={(event) => (tree.value = event.currentTarget.checked)}
            />
            Also close the sessions below it and stop their runs
          </label>
        </ConfirmDialog>
      )}
    </>
  );
}
