/**
 * Control characters, line and paragraph separators, characters that reorder or hide text, blanks other than a space, and
 * characters without a defined shape (private and unassigned).
 */
export const unprintableCharacter =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/u;

export function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const short = { 7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 27: "e" }[code];
  if (short !== undefined) return `\\${short}`;
  if (code < 0x80) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code <= 0xffff
    ? `\\u${code.toString(16).padStart(4, "0")}`
    : `\\U${code.toString(16).padStart(8, "0")}`;
}
