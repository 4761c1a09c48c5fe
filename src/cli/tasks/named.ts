import { NotFound } from "../../errors.js";

/** A task, as it was named: by its id, its run's, turn's or session's, or a beginning. Its gateway finds out which. */
export function taskParams(wanted: string): { readonly id: string } {
  if (wanted === "") throw new NotFound("task without a name");
  return { id: wanted };
}
