import { BadInput } from "../../errors.js";

/** Where a PostgreSQL store is. */
export interface PostgresTarget {
  /** For the driver alone: it may hold a password. */
  readonly url: string;
  /** Settings for the session that the URL asks for. */
  readonly options: string;
  readonly schema: string;
  /** For people: without user, password and parameters. */
  readonly label: string;
  /** Nothing that contains one of these is ever shown. */
  readonly secrets: readonly string[];
}

export const ADDRESS = "postgres://user:password@host:port/database (special characters as %40)";

export const DEFAULT_SCHEMA = "holdfast";

/** What the store itself says of every connection; a URL that says otherwise would be obeyed. */
const ours = [
  "options",
  "application_name",
  "statement_timeout",
  "query_timeout",
  "lock_timeout",
  "uselibpqcompat",
];

/** What each is here: the weaker ones, whose meaning differs between drivers, are as strict as the strictest. */
const sslModes: Readonly<Record<string, string>> = {
  disable: "disable",
  "no-verify": "no-verify",
  prefer: "verify-full",
  require: "verify-full",
  "verify-ca": "verify-full",
  "verify-full": "verify-full",
};

/** The parsed text is never quoted, nor kept as a cause: it may hold a password, well written or not. */
export function parseTarget(text: string, schema: string = DEFAULT_SCHEMA): PostgresTarget {
  if (!/^[a-z_][a-z0-9_]{0,40}$/.test(schema))
    throw new BadInput(
      "schema",
      `the database schema must be a short word of a-z, 0-9 and _; nothing was changed`,
    );
  const [, authority = ""] = /^[^/]*\/\/([^/?]*)/.exec(text) ?? [];
  if (authority.split("@").at(-1)?.includes(",") === true || /[?&](host|port)=[^&]*(,|%2c)/i.test(text))
    throw new BadInput(
      "database.url",
      "the database's address names several hosts, and one is used; nothing was changed. Give it a name or a proxy that leads to the primary.",
    );
  // As libpq has it: no host means a local socket, which a parameter names.
  const written = text.replace(/^(postgres(?:ql)?:\/\/[^/]*@)\//, "$1localhost/");
  const url = URL.canParse(written) ? new URL(written) : null;
  if (url === null || !["postgres:", "postgresql:"].includes(url.protocol))
    throw new BadInput(
      "database.url",
      `the database's address must look like ${ADDRESS}; nothing was changed`,
    );
  const { searchParams } = url;
  const secrets = [url.password, decoded(url.password), searchParams.get("password") ?? ""];
  const host = searchParams.get("host") ?? url.hostname;
  const port = searchParams.get("port") ?? url.port;
  const at = `${host === "" ? "localhost" : host}${port === "" ? "" : `:${port}`}`;
  const options = searchParams.get("options") ?? "";
  for (const name of ours) searchParams.delete(name);
  const sslMode = searchParams.get("sslmode");
  if (sslMode !== null) searchParams.set("sslmode", knownSslMode(sslMode));
  return {
    url: url.href,
    options,
    schema,
    label: `postgres database ${url.pathname.slice(1)} at ${at}`,
    secrets: secrets.filter((secret) => secret !== ""),
  };
}

export function isAddress(text: string): boolean {
  try {
    return labelOf(text) !== "";
  } catch {
    return false;
  }
}

/** Without what is nobody's business. */
export function labelOf(text: string): string {
  return parseTarget(text).label;
}

function knownSslMode(mode: string): string {
  const known = Object.hasOwn(sslModes, mode) ? sslModes[mode] : undefined;
  if (known !== undefined) return known;
  throw new BadInput(
    "database.url",
    `the sslmode in the database's address must be one of ${Object.keys(sslModes).join(", ")}; nothing was changed`,
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
