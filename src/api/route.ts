import { z } from "zod";
import type { ErrorCode } from "./error-response.js";

/** The tokens that a route accepts. To a session, a record that it may not see is not found. */
type Audience = "operator" | "session";

/** One operation of the gateway. Types, client, server and OpenAPI document are derived from it. */
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
  /** Error codes of this route, beside those that every route of its kind can answer with. */
  readonly errors: readonly ErrorCode[];
}

const emptyObject = z.object({});
type Empty = typeof emptyObject;

type RouteSpec<
  Params extends z.ZodType,
  Query extends z.ZodType,
  Body extends z.ZodType,
  Answer extends z.ZodType,
> = Pick<Route<Params, Query, Body, Answer>, "method" | "path" | "summary" | "audience"> &
  Partial<Pick<Route<Params, Query, Body, Answer>, "params" | "query" | "body" | "response" | "errors">>;

/** Params, query, body and response are empty objects unless given. */
export function defineRoute<
  Params extends z.ZodType = Empty,
  Query extends z.ZodType = Empty,
  Body extends z.ZodType = Empty,
  Answer extends z.ZodType = Empty,
>(spec: RouteSpec<Params, Query, Body, Answer>): Route<Params, Query, Body, Answer> {
  const empty = { params: emptyObject, query: emptyObject, body: emptyObject, response: emptyObject };
  return Object.freeze({ ...empty, errors: [], ...spec }) as Route<Params, Query, Body, Answer>;
}

/** The input of a route as a caller gives it. */
export interface RouteRequest<R extends Route> {
  readonly params: z.input<R["params"]>;
  readonly query: z.input<R["query"]>;
  readonly body: z.input<R["body"]>;
}

/** The validated input of a route, with defaults filled in. */
export interface ParsedRequest<R extends Route> {
  readonly params: z.output<R["params"]>;
  readonly query: z.output<R["query"]>;
  readonly body: z.output<R["body"]>;
}

export type RouteResponse<R extends Route> = z.output<R["response"]>;
