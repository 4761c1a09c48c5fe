/** A labelled part of a question. Its text is quoted and escaped by the gateway. */
export interface QuestionPart {
  readonly label: string;
  readonly text: string;
  readonly note: string | null;
  readonly continues: boolean;
  readonly masked: number;
}

interface Row {
  readonly label: string;
  readonly text: string;
  readonly note: string | null;
  readonly continues: boolean;
}

/**
 * The parts of a question as a list of labels and texts. A text cannot look like another row, because rows have borders
 * and the text stays in its column.
 */
export function QuestionParts({ parts }: { readonly parts: readonly QuestionPart[] }) {
  return (
    <dl class="question">
      {rowsOf(parts).map(({ label, text, note, continues }, at) => (
        <div key={at}>
          <dt>{label}</dt>
          <dd>
            <code>{breakLines(text)}</code>
            {note !== null && <span class="quiet"> ({note})</span>}
            {continues && <span class="quiet"> (continues on the next page)</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Joins the parts of one text. */
function rowsOf(parts: readonly QuestionPart[]): Row[] {
  const rows: Row[] = [];
  for (const { label, text, note, continues } of parts) {
    const last = rows.at(-1);
    if (last?.continues === true)
      rows[rows.length - 1] = { ...last, text: last.text + text, note: last.note ?? note, continues };
    else rows.push({ label, text, note, continues });
  }
  return rows;
}

/** Begins a new line after each line end inside a quoted text. In `$'…'` every backslash begins an escape. */
function breakLines(quoted: string): string {
  if (!quoted.startsWith("$'")) return quoted;
  return quoted.replaceAll(/\\[\s\S]/g, (escape) => (escape === String.raw`\n` ? `${escape}\n` : escape));
}
