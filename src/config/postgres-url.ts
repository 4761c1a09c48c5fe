import { BadInput } from "../errors.js";

/** The servers that a connection may use, as libpq's `target_session_attrs`. */
type SessionAttributes = "any" | "primary" | "read-write";

/** One server that an address names. */
export interface PostgresHost {
  /** Only for the driver: it may contain a password. */
  readonly url: string;
  /** Host and port, for messages. */
  readonly name: string;
}

/** The address of a PostgreSQL store. */
export interface PostgresAddress {
  /** In the order of the address; at least one. */
  readonly hosts: readonly PostgresHost[];
  readonly attributes: SessionAttributes;
  /** How long one host may take to connect; null: the store's default. */
  readonly connectMs: number | null;
  /** Session settings from `options` of the URL. */
  readonly settings: readonly (readonly [name: string, value: string])[];
  readonly schema: string;
  /** For people: without user, password and parameters. */
  readonly label: string;
  /** Secrets that messages must not contain. */
  readonly secrets: readonly string[];
}

const URL_FORM =
  "postgres://user:password@host:port/database, or host:port,host:port for several hosts (special characters as %40)";

export const DEFAULT_SCHEMA = "holdfast";

/** Parameters that an address may have besides user, password, host, port and database. */
const SUPPORTED_PARAMETERS = [
  "host",
  "port",
  "user",
  "password",
  "options",
  "connect_timeout",
  "target_session_attrs",
  "sslmode",
  "sslrootcert",
  "sslcert",
  "sslkey",
  "sslnegotiation",
  "ssl",
];

/** Parameters that the store sets for every connection: accepted in an address, without effect. */
const IGNORED_PARAMETERS = [
  "application_name",
  "fallback_application_name",
  "client_encoding",
  "statement_timeout",
  "query_timeout",
  "lock_timeout",
  "idle_in_transaction_session_timeout",
  "uselibpqcompat",
];

/** Meaning of each mode. The weaker ones differ between drivers, and are treated as the strictest. */
const SSL_MODES: Readonly<Record<string, string>> = {
  disable: "disable",
  "no-verify": "no-verify",
  prefer: "verify-full",
  require: "verify-full",
  "verify-ca": "verify-full",
  "verify-full": "verify-full",
};

/** A supervisor stops controlling its runs after 20 s without the store, and should have tried every host by then. */
const MAX_CONNECT_S = 20;

/** The text is never quoted nor kept as a cause, because it may contain a password, even if it is malformed. */
export function parsePostgresUrl(text: string, schema: string = DEFAULT_SCHEMA): PostgresAddress {
  if (!/^[a-z_][a-z0-9_]{0,40}$/.test(schema))
    throw new BadInput(
      "schema",
      `the database schema must be a short word of a-z, 0-9 and _; nothing was changed`,
    );
  const [, scheme = "", authority = "", path = "", query = ""] =
    /^(postgres(?:ql)?):\/\/([^/?#]*)(\/[^?#]*)?(\?[^#]*)?$/.exec(text) ?? [];
  const userEnd = authority.lastIndexOf("@") + 1;
  const userinfo = authority.slice(0, userEnd);
  // The URL is parsed without its hosts, because a URL has room for only one.
  const written = `${scheme}://${userinfo}localhost${path}${query}`;
  const url = scheme !== "" && URL.canParse(written) ? new URL(written) : null;
  // The rest of a password with "/" in it, which would be shown as the name of the database.
  const misread = userEnd === 0 && path.includes("@");
  if (url === null || misread || query.includes("@"))
    throw new BadPostgresUrl(
      `must look like ${URL_FORM}${query.includes("@") ? '; "@" in a parameter is %40' : ""}`,
    );
  const { searchParams } = url;
  requireSupported(searchParams);
  const secrets = [url.password, decoded(url.password), searchParams.get("password") ?? ""];
  const hosts = hostsOf(authority.slice(userEnd), searchParams);
  const settings = settingsOf(searchParams.get("options") ?? "");
  const attributes = attributesOf(searchParams.get("target_session_attrs"));
  const connectMs = connectMsOf(searchParams.get("connect_timeout"));
  const sslMode = searchParams.get("sslmode");
  for (const name of [...IGNORED_PARAMETERS, "options", "target_session_attrs", "connect_timeout"])
    searchParams.delete(name);
  if (sslMode !== null) searchParams.set("sslmode", knownSslMode(sslMode));
  return {
    hosts: hosts.map(({ host, port }) => {
      const its = new URL(url.href);
      its.searchParams.set("host", host);
      if (port !== "") its.searchParams.set("port", port);
      else its.searchParams.delete("port");
      return { url: its.href, name: hostName(host, port) };
    }),
    attributes,
    connectMs,
    settings,
    schema,
    label: `postgres database ${url.pathname.slice(1)} at ${hosts.map(({ host, port }) => hostName(host, port)).join(",")}`,
    secrets: secrets.filter((secret) => secret !== ""),
  };
}

/** Describes what is wrong with an address, without its password; null: nothing. */
export function postgresUrlProblem(text: string): string | null {
  try {
    parsePostgresUrl(text);
    return null;
  } catch (error) {
    if (error instanceof BadPostgresUrl) return error.problem;
    throw error;
  }
}

/** Removes the secrets. */
export function postgresUrlLabel(text: string): string {
  return parsePostgresUrl(text).label;
}

class BadPostgresUrl extends BadInput {
  readonly problem: string;
  constructor(problem: string) {
    super("database.url", `the address of the database ${problem}; nothing was changed`);
    this.problem = problem;
  }
}

function requireSupported(parameters: URLSearchParams): void {
  for (const name of parameters.keys()) {
    if (SUPPORTED_PARAMETERS.includes(name) || IGNORED_PARAMETERS.includes(name)) continue;
    // Text that is not a valid name may be the rest of a password with "?" or "&" in it.
    const shown = /^[a-z][a-z_]{1,40}$/i.test(name) ? ` "${name}"` : "";
    throw new BadPostgresUrl(
      `has an unsupported parameter${shown}; supported are ${SUPPORTED_PARAMETERS.join(", ")}`,
    );
  }
}

/** Hosts and ports as in libpq: lists in the address itself or as parameters, with as many ports as hosts or one for all. */
function hostsOf(
  authority: string,
  parameters: URLSearchParams,
): readonly { readonly host: string; readonly port: string }[] {
  const inAuthority = authority.split(",").map((each) => {
    const parts = /^(\[[^\]]*\]|[^:[\]\s]*)(?::(.*))?$/.exec(each);
    if (parts === null) throw new BadPostgresUrl(`must look like ${URL_FORM}`);
    const [, host = "", port = ""] = parts;
    return { host: decoded(host.replace(/^\[(.*)\]$/, "$1")), port };
  });
  const hosts = parameters.get("host")?.split(",") ?? inAuthority.map(({ host }) => host);
  const ports = parameters.get("port")?.split(",") ?? inAuthority.map(({ port }) => port);
  if (ports.length !== 1 && ports.length !== hosts.length)
    throw new BadPostgresUrl(
      `has ${ports.length} ports for ${hosts.length} hosts; give one for each, or one for all`,
    );
  return hosts.map((host, at) => {
    const port = (ports.length === 1 ? ports[0] : ports[at]) ?? "";
    if (port !== "" && !(/^\d{1,5}$/.test(port) && Number(port) > 0 && Number(port) < 65_536))
      throw new BadPostgresUrl("has a port that is not a number from 1 to 65535");
    return { host: host === "" ? "localhost" : host, port };
  });
}

function hostName(host: string, port: string): string {
  const shown = host.includes(":") ? `[${host}]` : host;
  return port === "" ? shown : `${shown}:${port}`;
}

/** `-c name=value` and `--name=value`, as the server's command line. PgBouncer does not accept `options`, so they are set later. */
function settingsOf(options: string): readonly (readonly [string, string])[] {
  const words = options.trim().split(/(?<!\\)\s+/);
  const settings: (readonly [string, string])[] = [];
  for (let at = 0; at < words.length && words[at] !== ""; at += 1) {
    const word = words[at] ?? "";
    const setting = word === "-c" ? (words[(at += 1)] ?? "") : word.replace(/^(-c|--)/, "");
    const [, name = "", value = ""] = /^([a-z][a-z0-9_.-]*)=(.*)$/is.exec(setting) ?? [];
    if (setting === word || name === "")
      throw new BadPostgresUrl('has "options" that are not of the form -c name=value');
    settings.push([name.replaceAll("-", "_"), value.replaceAll(/\\(.)/gs, "$1")]);
  }
  return settings;
}

function attributesOf(text: string | null): SessionAttributes {
  if (text === null || text === "any") return "any";
  if (text === "primary" || text === "read-write") return text;
  throw new BadPostgresUrl(
    "has a target_session_attrs that is not supported; supported are read-write, primary and any, because a store must be writable",
  );
}

function connectMsOf(text: string | null): number | null {
  if (text === null) return null;
  const seconds = /^\d{1,3}$/.test(text) ? Number(text) : Number.NaN;
  if (!(seconds >= 1 && seconds <= MAX_CONNECT_S))
    throw new BadPostgresUrl(
      `has a connect_timeout that is not a number of seconds from 1 to ${MAX_CONNECT_S}`,
    );
  return seconds * 1_000;
}

function knownSslMode(mode: string): string {
  const known = Object.hasOwn(SSL_MODES, mode) ? SSL_MODES[mode] : undefined;
  if (known !== undefined) return known;
  throw new BadPostgresUrl(
    `has an unsupported sslmode; it must be one of ${Object.keys(SSL_MODES).join(", ")}`,
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
