import type { z } from "zod";

/** Who may ask. A session acts as itself only: whatever it cannot see answers like what is not there. */
export type Audience = "operator" | "session";

/** One thing that can be asked of a gateway. Types, client, server and OpenAPI all follow from it. */
export interface Route<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  Answer extends z.ZodType = z.ZodType,
> {
  readonly method: "GET" | "POST" | "DELETE";
  /** As in `/v1/runs/{runId}`. */
  readonly path: string;
  readonly summary: string;
  readonly audience: Audience;
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  readonly response: Answer;
}

export function defineRoute<
  Params extends z.ZodType,
  Query extends z.ZodType,
  Body extends z.ZodType,
  Answer extends z.ZodType,
>(spec: Route<Params, Query, Body, Answer>): Route<Params, Query, Body, Answer> {
  return Object.freeze(spec);
}

/** What a caller gives. */
export interface RouteRequest<R extends Route> {
  readonly params: z.input<R["params"]>;
  readonly query: z.input<R["query"]>;
  readonly body: z.input<R["body"]>;
}

/** The same, checked, with defaults filled in. */
export interface ParsedRequest<R extends Route> {
  readonly params: z.output<R["params"]>;
  readonly query: z.output<R["query"]>;
  readonly body: z.output<R["body"]>;
}

export type RouteResponse<R extends Route> = z.output<R["response"]>;
