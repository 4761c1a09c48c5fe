/** `npm run soak` repeats the same promises many more times. */
export const soak = process.env["HOLDFAST_SOAK"] === "1";

export function repetitions(ordinarily: number, inSoak: number): number {
  return soak ? inSoak : ordinarily;
}
