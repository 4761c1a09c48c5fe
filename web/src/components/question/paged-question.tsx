import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { defaults } from "../../defaults.js";
import { useResource } from "../../live/use-resource.js";
import { ResourceView } from "../resource-view.js";
import { QuestionParts, type QuestionPart } from "./question-parts.js";

export interface QuestionPage {
  readonly page: number;
  /** 0: the question does not wait at this gateway, or it has ended. */
  readonly pages: number;
  readonly parts: readonly QuestionPart[];
  /** Null: this is not the last page. */
  readonly digest: string | null;
}

interface PagedQuestionProps<Page extends QuestionPage> {
  readonly id: string;
  readonly read: (
    query: { readonly page: number; readonly reveal?: "1" },
    signal: AbortSignal,
  ) => Promise<Page>;
  readonly head: (page: Page) => ComponentChildren;
  /** `digest`: of the whole question. Null: the person has not seen all of it. `reload`: after an answer. */
  readonly answer: (page: Page, digest: string | null, reload: () => void) => ComponentChildren;
}

/** A question to the operator, page by page. Its digest is known when its last page was shown. */
export function PagedQuestion<Page extends QuestionPage>({
  id,
  read,
  head,
  answer,
}: PagedQuestionProps<Page>) {
  const page = useSignal(1);
  const reveal = useSignal(false);
  const digest = useSignal<string | null>(null);
  const shown = useResource(
    `question ${id} ${page.value} ${reveal.value}`,
    (signal) => read({ page: page.peek(), ...(reveal.peek() ? { reveal: "1" } : {}) }, signal),
    { everyMs: defaults.questionPollMs, runIds: [] },
  );
  useEffect(() => {
    if (shown.value !== undefined && shown.value.digest !== null) digest.value = shown.value.digest;
  }, [shown.value]);
  return (
    <ResourceView resource={shown}>
      {(found) => {
        const masked = found.parts.reduce((sum, part) => sum + part.masked, 0);
        return (
          <>
            {head(found)}
            {found.pages > 0 && <QuestionParts parts={found.parts} />}
            {(masked > 0 || reveal.value) && (
              <label class="check">
                <input
                  type="checkbox"
                  checked={reveal.value}
                  onChange={(event) => {
                    reveal.value = event.currentTarget.checked;
                    page.value = 1;
                    digest.value = null;
                  }}
                />
                {reveal.value ? "Secrets are shown" : `Show masked secrets (${masked} on this page)`}
              </label>
            )}
            {found.pages > 1 && (
              <nav class="pager" aria-label="Pages of the question">
                <button
                  type="button"
                  disabled={found.page <= 1}
                  onClick={() => (page.value = found.page - 1)}
                >
                  Previous
                </button>
                <span class="number">
                  Page {found.page} of {found.pages}
                </span>
                <button
                  type="button"
                  class={digest.value === null ? "primary" : undefined}
                  disabled={found.page >= found.pages}
                  onClick={() => (page.value = found.page + 1)}
                >
                  Next
                </button>
              </nav>
            )}
            {answer(found, digest.value, shown.reload)}
          </>
        );
      }}
    </ResourceView>
  );
}
