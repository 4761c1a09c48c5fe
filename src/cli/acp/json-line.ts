/** What a terminal would act upon, or not show, as JSON may write it. */
const UNSEEN = /[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The same value, on one line that no terminal makes anything else of. */
export function jsonLine(value: unknown): string {
  const text = JSON.stringify(value).replaceAll(UNSEEN, (character) =>
    [...Array(character.length).keys()]
      .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`)
      .join(""),
  );
  return `${text}\n`;
}
