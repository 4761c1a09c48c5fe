import { useSignal } from "@preact/signals";
import { request } from "../../api/client.js";
import { ErrorBox } from "../../components/error-box.js";
import { useAction } from "../../components/use-action.js";

interface PromptBoxProps {
  readonly sessionId: string;
  /** A turn runs or is queued. */
  readonly running: boolean;
  readonly onChange: () => void;
}

/** The next prompt, and the cancellation of the turn that runs. */
export function PromptBox({ sessionId, running, onChange }: PromptBoxProps) {
  const text = useSignal("");
  // A repeated request with the same id is the same turn.
  const turnId = useSignal(newTurnId());
  const sending = useAction();
  const cancelling = useAction();
  const params = { id: sessionId };
  const send = (): void => {
    const prompt = text.peek();
    if (prompt.trim() === "") return;
    sending.run(async () => {
      await request("acpPrompt", { params, body: { text: prompt, wait: false, turnId: turnId.peek() } });
      text.value = "";
      turnId.value = newTurnId();
      onChange();
    });
  };
  const cancel = (): void =>
    cancelling.run(async () => {
      await request("acpCancel", { params, body: {} });
      onChange();
    });
  return (
    <form
      class="prompt-box"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {sending.error !== null && <ErrorBox error={sending.error} />}
      {cancelling.error !== null && <ErrorBox error={cancelling.error} />}
      <textarea
        aria-label="Prompt"
        placeholder="Prompt to the agent"
        rows={3}
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          send();
        }}
      />
      <div class="prompt-buttons">
        <span class="quiet prompt-hint">
          Ctrl+Enter sends{running && "; it waits for the turns before it"}
        </span>
        {running && (
          <button type="button" class="danger" disabled={cancelling.busy} onClick={cancel}>
            Cancel the turn
          </button>
        )}
        <button type="submit" class="primary" disabled={sending.busy || text.value.trim() === ""}>
          Send
        </button>
      </div>
    </form>
  );
}

function newTurnId(): string {
  const letters = "0123456789abcdefghijklmnopqrstuvwxyz";
  const random = crypto.getRandomValues(new Uint8Array(12));
  return `turn_${Array.from(random, (byte) => letters[byte % letters.length]).join("")}`;
}
