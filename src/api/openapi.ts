import { STATUS_CODES } from "node:http";
import { z } from "zod";
import { contract } from "./contract.js";
import { type ErrorCode, HTTP_STATUS } from "./error-response.js";
import type { Route } from "./route.js";

type Schemas = Record<string, object>;

const DESCRIPTION = `HTTP and JSON over \`gateway.sock\` in the state directory, or over a loopback port.
Every request needs a token: the operator's, or the token of a session.`;

/** Tags by the first part of the path after \`/v1/\`. */
const TAGS: Readonly<Record<string, readonly [name: string, description: string]>> = {
  gateway: ["Gateway", "The gateway, its peers and its events."],
  gateways: ["Gateway", ""],
  events: ["Gateway", ""],
  dashboard: ["Gateway", ""],
  health: ["Gateway", ""],
  doctor: ["Gateway", ""],
  runs: ["Runs", "Commands and their processes."],
  "runs-view": ["Runs", ""],
  exec: ["Runs", ""],
  processes: ["Runs", ""],
  sessions: ["Sessions", "Identities that start work, and their messages."],
  agents: ["Agents", "The catalogue of agents, and one-shot prompts."],
  channels: ["Channels", "Receivers of notifications."],
  approvals: ["Approvals", "Questions to the operator about commands of sessions."],
  tasks: ["Tasks", "Records of background work."],
  "task-audit": ["Tasks", ""],
  "task-maintenance": ["Tasks", ""],
  acp: ["ACP", "Sessions with ACP agents, their turns and permission requests."],
};

/** The contract as an OpenAPI document. */
export function openApiDocument(): object {
  const schemas: Schemas = { Error: errorSchema };
  const paths: Record<string, Record<string, object>> = {};
  for (const [verb, route] of Object.entries(contract)) {
    const path = (paths[route.path] ??= {});
    path[route.method.toLowerCase()] = operation(verb, route, schemas);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Holdfast gateway",
      version: "1",
      description: DESCRIPTION,
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/", description: "The gateway that serves this document." }],
    tags: Object.values(TAGS).flatMap(([name, description]) =>
      description === "" ? [] : [{ name, description }],
    ),
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
      responses: {
        ...Object.fromEntries(
          [...codesByStatus()].map(([status, codes]) => [
            statusName(status),
            errorResponse(`${STATUS_CODES[status] ?? ""}: ${codes.join(", ")}`),
          ]),
        ),
        Error: errorResponse("Any other error."),
      },
      schemas: Object.fromEntries(
        Object.entries(schemas).toSorted(([one], [other]) => (one < other ? -1 : 1)),
      ),
    },
  };
}

function tagOf(path: string): string {
  const [, , noun = ""] = path.split("/");
  const tag = TAGS[noun];
  if (tag === undefined) throw new Error(`TAGS has no entry for ${noun}, of ${path}`);
  return tag[0];
}

const errorSchema = {
  type: "object",
  description: "`code` is stable; docs/reference/errors.md lists all codes and their fields.",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["code", "message"],
      properties: { code: { type: "string" }, message: { type: "string" } },
    },
  },
};

function operation(verb: string, route: Route, schemas: Schemas): object {
  const { summary, audience, params, query, body, method, path, response } = route;
  return {
    operationId: verb,
    summary,
    description:
      audience === "operator"
        ? "Needs the operator's token."
        : "Needs the token of the operator or a session.",
    tags: [tagOf(path)],
    parameters: [...parameters(params, "path", schemas), ...parameters(query, "query", schemas)],
    ...(method === "POST"
      ? { requestBody: { required: false, content: jsonContent(jsonSchema(body, "input", schemas)) } }
      : {}),
    responses: {
      200: { description: "Success", content: jsonContent(jsonSchema(response, "output", schemas)) },
      ...Object.fromEntries(
        errorStatuses(route).map((status) => [
          status,
          { $ref: `#/components/responses/${statusName(status)}` },
        ]),
      ),
      default: { $ref: "#/components/responses/Error" },
    },
  };
}

/** Statuses of the errors that a route can answer with. */
function errorStatuses({ method, path, audience, errors }: Route): readonly number[] {
  const codes: ErrorCode[] = [
    ...(["BAD_INPUT", "UNAUTHORIZED", "FOREIGN_ORIGIN", "TOO_MANY_REQUESTS", "STORE_AWAY"] as const),
    ...errors,
  ];
  if (path.includes("{") || audience === "operator") codes.push("NOT_FOUND");
  if (path.includes("{runId}")) codes.push("PEER_UNREACHABLE");
  if (method === "POST") codes.push("TOO_LARGE");
  return [...new Set(codes.map((code) => HTTP_STATUS[code]))].toSorted((one, other) => one - other);
}

function codesByStatus(): ReadonlyMap<number, readonly string[]> {
  const found = new Map<number, string[]>();
  for (const [code, status] of Object.entries(HTTP_STATUS))
    found.set(status, [...(found.get(status) ?? []), code]);
  return new Map([...found].toSorted(([one], [other]) => one - other));
}

/** `NotFound` for 404. */
function statusName(status: number): string {
  return (STATUS_CODES[status] ?? `Status${status}`).replaceAll(/\W/g, "");
}

function errorResponse(description: string): object {
  return { description, content: jsonContent({ $ref: "#/components/schemas/Error" }) };
}

function parameters(shape: z.ZodType, where: "path" | "query", schemas: Schemas): object[] {
  const { properties = {}, required = [] } = jsonSchema(shape, "input", schemas) as {
    readonly properties?: Readonly<Record<string, object>>;
    readonly required?: readonly string[];
  };
  return Object.entries(properties).map(([name, each]) => ({
    name,
    in: where,
    required: where === "path" || required.includes(name),
    schema: each,
  }));
}

/** Schemas with an id go into `schemas`, and are referred to. */
function jsonSchema(shape: z.ZodType, io: "input" | "output", schemas: Schemas): object {
  const generated = z.toJSONSchema(shape, { io, unrepresentable: "any", reused: "inline" });
  const text = JSON.stringify(generated).replaceAll('"#/$defs/', '"#/components/schemas/');
  const { $schema: _, $defs = {}, ...rest } = JSON.parse(text) as { $schema?: string; $defs?: Schemas };
  for (const [id, { id: _id, ...schema }] of Object.entries($defs as Record<string, { id?: string }>)) {
    const known = schemas[id];
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(schema))
      throw new Error(`the schema ${id} has two different forms`);
    schemas[id] = schema;
  }
  return rest;
}

function jsonContent(schema: object): object {
  return { "application/json": { schema } };
}
