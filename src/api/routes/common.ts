import { z } from "zod";

/** Why the end of the run is not recorded yet. Null: it is recorded, or the run has not ended. */
export const recordPending = z.string().nullable();

export const runId = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, "is not a run id");
export const runParams = z.object({ runId });

/** A boolean of a query string. */
export const flag = z.enum(["0", "1", "false", "true"]).transform((text) => text === "1" || text === "true");
export const count = z.coerce.number().int().min(0);
export const pageLimit = (initial = 100) => z.coerce.number().int().min(1).max(1_000).default(initial);
export const stream = z.enum(["stdout", "stderr"]);

export const outputPiece = z
  .object({
    stream,
    /** Offset of the first byte of `text`. */
    offset: z.int(),
    /** Where the next piece begins. */
    nextOffset: z.int(),
    /** Without terminal escapes; other control and invisible characters are replaced by visible symbols. A log with `raw`: unchanged. */
    text: z.string(),
    /** The bytes from `offset` to `nextOffset`. Only with `raw`, in responses of `exec` and `poll`. */
    base64: z.string().optional(),
    /** Bytes before `offset` that were not kept, or not returned because of the limit. */
    skipped: z.int(),
    /** The part of `skipped` that is missing because a spool file was truncated or removed. */
    lost: z.int(),
    /** The stream ends at `nextOffset`. */
    ended: z.boolean(),
  })
  .meta({ id: "OutputPiece", description: "A piece of the output of one stream, as text." });

export const questionQuery = z.strictObject({
  /** Page number, from 1. A number beyond the last page means the last page. */
  page: z.coerce.number().int().min(1).max(1_000_000).default(1),
  /** Do not mask secrets. */
  reveal: flag.optional(),
});

/** Fields of one page of a question. `pages` is 0 if the question is not pending at this gateway. */
export const questionPage = {
  page: z.int(),
  pages: z.int(),
  parts: z.array(
    z
      .object({
        /** `program`, `argv[0]`, `cwd`, `env NAME`, `unset NAME`, `stdin`, `title`, … */
        label: z.string(),
        /** Quoted for a shell, on one line; invisible characters are escaped, secrets are masked. */
        text: z.string(),
        note: z.string().nullable(),
        /** The text continues in the next part. */
        continues: z.boolean(),
        masked: z.int(),
      })
      .meta({ id: "QuestionPart", description: "A labelled part of a question to the operator." }),
  ),
  /** Digest of the question, to be sent with the answer. Null: this is not the last page. */
  digest: z.string().nullable(),
};

/** Digest of the question that was shown. Required to allow a question that the list shows in part only. */
export const questionDigest = z.string().max(200).optional();
