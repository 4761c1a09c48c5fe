/** What a terminal would act upon, or not show, and JSON may leave as it is. */
const INVISIBLE = /[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The same value, in words that no terminal makes anything else of. */
export function toJson(value: unknown, indent = 0): string {
  const text = JSON.stringify(value, null, indent).replaceAll(INVISIBLE, (character) =>
    Array.from({ length: character.length }, (_, at) => escapeCodeUnit(character.charCodeAt(at))).join(""),
  );
  return `${text}\n`;
}

function escapeCodeUnit(code: number): string {
  return `\\u${code.toString(16).padStart(4, "0")}`;
}
