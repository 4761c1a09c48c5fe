import { z } from "zod";
import { contract } from "./contract.js";
import type { Route } from "./route.js";

/** The contract in OpenAPI's words. */
export function openApiDocument(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const [verb, route] of Object.entries(contract)) {
    const path = (paths[route.path] ??= {});
    path[route.method.toLowerCase()] = openApiOperation(verb, route);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Holdfast gateway",
      version: "1",
      description: "HTTP and JSON over the state directory's gateway.sock. Every request needs a token.",
    },
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer" } },
      schemas: {
        Error: {
          type: "object",
          required: ["error"],
          properties: {
            error: {
              type: "object",
              required: ["code", "message"],
              properties: { code: { type: "string" }, message: { type: "string" } },
            },
          },
        },
      },
    },
  };
}

function openApiOperation(
  verb: string,
  { summary, audience, params, query, body, method, response: answer }: Route,
): object {
  return {
    operationId: verb,
    summary,
    description:
      audience === "operator" ? "For the operator's token only." : "For the operator and for sessions.",
    parameters: [...openApiParameters(params, "path"), ...openApiParameters(query, "query")],
    ...(method === "POST"
      ? { requestBody: { required: false, content: jsonContent(jsonSchema(body, "input")) } }
      : {}),
    responses: {
      200: { description: "done", content: jsonContent(jsonSchema(answer, "output")) },
      default: {
        description: "not done; docs/reference/errors.md lists the codes",
        content: jsonContent({ $ref: "#/components/schemas/Error" }),
      },
    },
  };
}

function openApiParameters(shape: z.ZodType, where: "path" | "query"): object[] {
  const { properties = {}, required = [] } = jsonSchema(shape, "input") as {
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

function jsonSchema(shape: z.ZodType, io: "input" | "output"): object {
  const { $schema: _, ...rest } = z.toJSONSchema(shape, { io, unrepresentable: "any", reused: "inline" });
  return rest;
}

function jsonContent(content: object): object {
  return { "application/json": { schema: content } };
}
