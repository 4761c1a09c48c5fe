import { useSignal } from "@preact/signals";

/** Characters that are laid out at once: a line of a megabyte would stop the page for seconds. */
const SHOWN_CHARS = 20_000;

/** Text of an agent or a person, as it is. What is very long is shown on request. */
export function LongText({ text, class: name }: { readonly text: string; readonly class?: string }) {
  const whole = useSignal(false);
  const cut = !whole.value && text.length > SHOWN_CHARS;
  return (
    <>
      <div class={`long-text ${name ?? ""}`} dir="auto">
        {cut ? text.slice(0, SHOWN_CHARS) : text}
      </div>
      {cut && (
        <button type="button" class="plain" onClick={() => (whole.value = true)}>
          Show all {text.length.toLocaleString()} characters
        </button>
      )}
    </>
  );
}
