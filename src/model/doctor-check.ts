import { z } from "zod";
import type { RecordOf } from "./record-type.js";

/**
 * The result of one check of `holdfast doctor`. `warn`: it works with a weaker guarantee, or will soon fail. `bad`:
 * something cannot work.
 */
export const doctorCheckSchema = z.object({
  name: z.string(),
  state: z.enum(["ok", "warn", "bad"]),
  detail: z.string(),
  /** The advice to the operator. Null: there is nothing to do. */
  remedy: z.string().nullable(),
});

export type DoctorCheck = RecordOf<typeof doctorCheckSchema>;
