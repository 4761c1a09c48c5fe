import { z } from "zod";

/** Why the end of a run is not on record yet: the store cannot be written. Null: it is, or the run has not ended. */
export const recordPending = z.string().nullable();

export const emptyObject = z.object({});
export const runId = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, "is no run id");
export const runParams = z.object({ runId });

/** Query strings carry text only. */
export const flag = z.enum(["0", "1", "false", "true"]).transform((text) => text === "1" || text === "true");
export const count = z.coerce.number().int().min(0);
export const stream = z.enum(["stdout", "stderr"]);

/** A piece of one stream's output, as text. */
export const outputPiece = z.object({
  stream,
  /** Of the first byte of `text`. */
  offset: z.int(),
  /** Ask from here for what comes next. */
  nextOffset: z.int(),
  /** Without terminal escapes; other control and invisible characters are visible symbols. With `raw` of a log: unchanged. */
  text: z.string(),
  /** The bytes from `offset` to `nextOffset`; only of `exec` and `poll`, with `raw`. */
  base64: z.string().optional(),
  /** Bytes before `offset` that were not kept, or not returned because of the limit. */
  skipped: z.int(),
  /** Bytes among these that are missing because a spool file was truncated or removed. */
  lost: z.int(),
  /** No byte comes after `nextOffset`. */
  ended: z.boolean(),
});

export const survivor = z.object({
  pid: z.int(),
  startTime: z.int(),
  kind: z.string(),
  command: z.string(),
});

export const questionQuery = z.strictObject({
  /** Counted from 1; a number beyond the last page means the last page. */
  page: z.coerce.number().int().min(1).max(1_000_000).default(1),
  /** Mask no secrets. */
  reveal: flag.optional(),
});

/** A page of a question to the operator. `pages` is 0 if the question does not wait at this gateway. */
export const questionPage = {
  page: z.int(),
  pages: z.int(),
  parts: z.array(
    z.object({
      /** `program`, `argv[0]`, `cwd`, `env NAME`, `unset NAME`, `stdin`, `title`, … */
      label: z.string(),
      /** Quoted for a shell, on one line; invisible characters are escaped, secrets are masked. */
      text: z.string(),
      note: z.string().nullable(),
      /** The text continues in the next part. */
      continues: z.boolean(),
      masked: z.int(),
    }),
  ),
  /** Digest of the question, to be sent with the answer. Null: this is not the last page. */
  digest: z.string().nullable(),
};

/** Digest of the question that was shown. Required to allow a question that the list does not show whole. */
export const questionDigest = z.string().max(200).optional();
