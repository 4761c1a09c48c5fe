import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ErrorBox } from "./error-box.js";

interface ConfirmDialogProps {
  readonly title: string;
  /** The effect, with the name of what it affects. */
  readonly children: ComponentChildren;
  /** The label of the button that confirms: a verb. */
  readonly action: string;
  readonly danger?: boolean;
  /** The dialog closes when it resolves, and shows the error when it rejects. */
  readonly onConfirm: () => Promise<unknown>;
  readonly onClose: () => void;
}

/** A modal question before something that cannot be undone. Escape and Cancel only close it. */
export function ConfirmDialog({ title, children, action, danger, onConfirm, onClose }: ConfirmDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const busy = useSignal(false);
  const error = useSignal<unknown>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const confirm = async (): Promise<void> => {
    busy.value = true;
    error.value = null;
    try {
      await onConfirm();
      onClose();
    } catch (cause) {
      error.value = cause;
    } finally {
      busy.value = false;
    }
  };
  return (
    <dialog ref={dialog} class="confirm-dialog" aria-labelledby="confirm-title" onClose={onClose}>
      <h2 id="confirm-title">{title}</h2>
      <div class="confirm-body">{children}</div>
      {error.value !== null && <ErrorBox error={error.value} />}
      <div class="confirm-buttons">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          class={danger === true ? "danger" : "primary"}
          disabled={busy.value}
          onClick={() => void confirm()}
        >
          {action}
        </button>
      </div>
    </dialog>
  );
}
