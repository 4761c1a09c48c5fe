import { createHash } from "node:crypto";
import { basename } from "node:path";
import { defaults } from "../defaults.js";
import { sanitizeLine } from "./sanitize.js";
import { shellQuote } from "./shell-words.js";
import { truncate } from "./truncate.js";

/** Words that mark the name of an option, variable, header or JSON key as that of a secret. */
const secretWords =
  /^(?:password|passwords|passwd|passphrase|passcode|secret|secrets|credential|credentials|token|apikey|cookie|bearer|pwd|pass)$/;
/** Secret words at the end of a compound word: PGPASSWORD, SSHPASS, authtoken. */
const secretSuffix = /(?:password|passwd|passphrase|secret|token|apikey|sshpass|_auth)$/;
/** `key` alone often names a file or a map key; after one of these words it names a secret. */
const keyOwner =
  /^(?:api|access|private|secret|signing|encryption|account|auth|license|service|master|shared)$/;
/** A name with this ending denotes the location or size of a secret, not its value. */
const aboutSecret =
  /^(?:file|files|path|dir|directory|name|names|id|ids|url|uri|endpoint|type|kind|count|limit|length|size|max|min|budget|expiry|ttl|timeout|stdin|prompt|policy|env|var|manager|store|helper|scope|scopes|audience|issuer|usage|number)$/;

/** Returns true if a value with this name should be hidden. In doubt, true. */
export function isSecretName(name: string): boolean {
  const words = name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1-$2")
    .replaceAll(/([A-Z]+)([A-Z][a-z])/g, "$1-$2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
  const last = words.at(-1);
  if (last === undefined || aboutSecret.test(last)) return false;
  return words.some(
    (word, at) =>
      secretWords.test(word) ||
      secretSuffix.test(word) ||
      (word === "key" && at > 0 && keyOwner.test(words[at - 1] ?? "")),
  );
}

/**
 * Options of one letter whose value is a secret, by program. A letter alone says nothing: `-p` is a port, a directory
 * mode or a prompt elsewhere. `attached`: only as one word with the option (`mysql -pSECRET`; in `mysql -p db` the next
 * word is a database).
 */
interface SecretOption {
  readonly letter: string;
  readonly attached?: true;
}

const separateOption = (letter: string, names: string): [string, readonly SecretOption[]][] =>
  names.split(" ").map((name) => [name, [{ letter }]]);
const attachedOption = (letter: string, names: string): [string, readonly SecretOption[]][] =>
  names.split(" ").map((name) => [name, [{ letter, attached: true }]]);

const SECRET_OPTIONS: ReadonlyMap<string, readonly SecretOption[]> = new Map([
  ...attachedOption(
    "p",
    "mysql mysqladmin mysqlbinlog mysqlcheck mysqldump mysqlimport mysqlpump mysqlshow mysqlslap mariadb mariadb-admin mariadb-backup mariadb-check mariadb-dump mariadb-import mariadb-show 7z 7za 7zr 7zz rar unrar",
  ),
  ...separateOption(
    "p",
    "sshpass mongo mongosh mongodump mongoexport mongoimport mongorestore mongostat cqlsh docker-login podman-login nerdctl-login buildah-login skopeo-login oc-login az-login helm-login",
  ),
  ...separateOption("P", "zip unzip sqlcmd bcp mosquitto_pub mosquitto_sub ipmitool"),
  ...separateOption("a", "redis-cli valkey-cli keydb-cli"),
  ...separateOption("k", "openssl"),
  ...separateOption("w", "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldappasswd"),
]);

/** Programs whose `-p` is a password only after the word `login`: `docker run -p 8080:80` publishes a port. */
const LOGIN_PROGRAMS: ReadonlySet<string> = new Set(
  "docker podman nerdctl buildah skopeo oc az helm".split(" "),
);

/** Reads the words of one command in order and finds where in a word a secret begins. */
export class SecretOptionScanner {
  #program = "";
  #valueNext = false;

  /** Returns the offset of a secret in the next word, or null if the word is not an option's secret. */
  next(word: string): number | null {
    if (this.#valueNext) {
      this.#valueNext = false;
      return 0;
    }
    // A wrapper may come first: `sudo mysql -pSECRET`, `docker exec db redis-cli -a SECRET`.
    const name = basename(word);
    if (LOGIN_PROGRAMS.has(name) || SECRET_OPTIONS.has(name)) this.#program = name;
    else if (name === "login" && LOGIN_PROGRAMS.has(this.#program)) this.#program = `${this.#program}-login`;
    // The following words belong to another program with its own options.
    else if (this.#program === "sshpass" && !word.startsWith("-")) this.#program = "";
    for (const { letter, attached } of SECRET_OPTIONS.get(this.#program) ?? []) {
      if (word === `-${letter}`) this.#valueNext = attached !== true;
      else if (word.startsWith(`-${letter}`) && isAttached(this.#program, word)) return 2;
    }
    return null;
  }
}

/** `openssl -key file` and `mongosh -port` are other options. */
function isAttached(program: string, word: string): boolean {
  return program !== "openssl" && !/^-[a-zA-Z](?:assword|ort|ass|rotocol|lugin|rint|ath)\b/.test(word);
}

/** The words of simple commands inside a script, without the separators between commands. */
const SIMPLE_COMMAND = /[^|;&\n`()]+/g;
const SCRIPT_WORD = /(?:[^\s'"]|'[^']*'|"[^"]*")+/g;

/** Finds the values of secret options in a script, as ranges [start, end). */
export function findSecretOptionValues(script: string): [number, number][] {
  const found: [number, number][] = [];
  for (const command of script.matchAll(SIMPLE_COMMAND)) {
    const scanner = new SecretOptionScanner();
    for (const word of command[0].matchAll(SCRIPT_WORD)) {
      const at = scanner.next(word[0]);
      const start = command.index + word.index;
      if (at !== null) found.push([start + at, start + word[0].length]);
    }
  }
  return found;
}

const hidden = "***";

/** Tokens that are recognized by their issuer's format, in any position. Each is one word. */
export const tokenPatterns = new RegExp(
  [
    "\\bhf[to]_[\\w-]{16,}", // Holdfast's own: a session's, the operator's
    "(?<=\\bbot|(?<![\\w:]))\\d{8,12}:[\\w-]{35}(?![\\w-])", // Telegram bot
    "(?<=\\bhooks\\.slack(?:-gov)?\\.com/(?:services|workflows|triggers)/)[\\w/-]{8,}",
    "(?<=\\bdiscord(?:app)?\\.com/api/(?:v\\d{1,2}/)?webhooks/\\d{5,25}/)[\\w-]{16,}",
    "(?<![\\w-])eyJ[\\w-]{8,}\\.[\\w-]{8,}(?:\\.[\\w-]*)?", // JSON web token
    "\\bsk-[\\w-]{16,}", // OpenAI, Anthropic and many after them
    "\\b(?:sk|rk|whsec)_(?:live_|test_)?\\w{16,}", // Stripe
    "\\bgh[opsur]_\\w{16,}",
    "\\bgithub_pat_\\w{16,}",
    "\\bgl(?:pat|ptt|rt|dt)-[\\w.-]{16,}",
    "\\bxox[a-z]-[\\w-]{8,}",
    "\\bxapp-[\\w-]{8,}",
    "\\b(?:AKIA|ASIA)[A-Z0-9]{16}\\b",
    "\\bAIza[\\w-]{30,}",
    "\\bya29\\.[\\w-]{16,}",
    "\\b(?:npm|hf|gsk|dop_v1|xai|pplx|lin_api|r8)[_-][A-Za-z0-9]{24,}",
    "\\bpypi-[\\w-]{16,}",
    "(?<![\\w-])SG\\.[\\w-]{16,}\\.[\\w-]{16,}",
  ].join("|"),
  "g",
);
const privateKey =
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|$)/g;
/** The signature of a signed URL (Azure SAS and others). A short value may be something else, such as the name of a signal. */
export const urlSignature = /(?<![\w.-])(sig=)[\w%+/=-]{16,}/gi;

/** Bounded and anchored, so that 128 KiB of any text are matched in linear time. */
const urlUser = /\b([a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/?#'"@]*(?:@[^\s/?#'"@]*)*@/gi;
const header =
  /(?<![\w-])((?:proxy-)?authorization|(?:set-)?cookie)(\s*:\s*)((?:basic|bearer|digest|token|negotiate)\s+)?[^\s'"][^'"\r\n]*/gi;
const colonPair = /(?<![\w-])([A-Za-z][\w-]{0,80}:[ \t]*)[^\s'",;]+/g;
const bearer = /\b(bearer\s+)[^\s'"]+/gi;
const jsonPair = /(["'])([\w.-]{1,80})\1(\s*:\s*)(["'])((?:\\.|(?!\4)[^\\])*)\4/g;
const assignment = /(?<![\w.-])(-{0,2}[A-Za-z_][\w.-]{0,80}=)("[^"]*"|'[^']*'|[^\s&;'"]+)/g;
const optionPair = /(?<![\w-])(--?[A-Za-z][\w-]{0,80})(\s+)("[^"]*"|'[^']*'|[^\s'"]+)/g;

/** Formats a command as one line for users: quoted as for a shell, secrets hidden, length limited. */
export function displayCommand(
  argv: readonly string[],
  limit: number = defaults.displayCommandChars,
): string {
  let line = "";
  for (const word of redactArguments(argv)) {
    line += (line === "" ? "" : " ") + shellQuote(word);
    if (line.length > limit) break;
  }
  return truncate(line, limit);
}

/**
 * Distinguishes commands without storing them. It hashes the redacted words, because a short secret in a known command
 * line could be guessed from the hash. Two runs that differ only in a token count as the same command.
 */
export function commandHash(argv: readonly string[]): string {
  return createHash("sha256")
    .update(JSON.stringify(redactArguments(argv)))
    .digest("hex");
}

export function redactArguments(argv: readonly string[]): string[] {
  const options = new SecretOptionScanner();
  return argv.map((word, at) => {
    const before = argv[at - 1] ?? "";
    const secretFrom = options.next(word);
    if (secretFrom !== null) return `${word.slice(0, secretFrom)}${hidden}`;
    // `A=b c` is one assignment, but after `sh -c` it is an assignment and a command.
    if (/^-[a-z]*c$/.test(before)) return redactText(word);
    return redactOptionValue(before, word) ?? redactAssignment(word) ?? redactText(word);
  });
}

/**
 * Handles `--password x` and `-u name:x`. Null if the previous word is no such option or this word is another option.
 */
function redactOptionValue(option: string, word: string): string | null {
  if (!/^--?[A-Za-z]/.test(option) || option.includes("=") || word.startsWith("--")) return null;
  if (/^(?:-u|-U|--user|--proxy-user)$/.test(option) && word.includes(":"))
    return `${word.slice(0, word.indexOf(":"))}:${hidden}`;
  // An option of one letter does not count as a secret's name: -p is a port as often as a password.
  return option.length > 2 && isSecretName(option) ? hidden : null;
}

/** `NAME=…` and `--name=…`, to the end of the word. */
function redactAssignment(word: string): string | null {
  const named = /^-{0,2}[A-Za-z_][\w.-]{0,80}=/.exec(word)?.[0];
  return named !== undefined && isSecretName(named) ? `${named}${hidden}` : null;
}

/** Hides secrets inside one word, which may be a whole script or JSON document. */
export function redactText(text: string): string {
  return redactOptionValues(text)
    .replace(privateKey, hidden)
    .replace(tokenPatterns, hidden)
    .replace(urlSignature, `$1${hidden}`)
    .replace(urlUser, `$1${hidden}@`)
    .replace(jsonPair, (all, quote: string, name: string, colon: string, mark: string) =>
      isSecretName(name) ? `${quote}${name}${quote}${colon}${mark}${hidden}${mark}` : all,
    )
    .replace(
      header,
      (_, name: string, colon: string, scheme: string | undefined) =>
        `${name}${colon}${scheme ?? ""}${hidden}`,
    )
    .replace(colonPair, (all, name: string) => (isSecretName(name) ? `${name}${hidden}` : all))
    .replace(bearer, `$1${hidden}`)
    .replace(assignment, (all, name: string) => (isSecretName(name) ? `${name}${hidden}` : all))
    .replace(optionPair, (all, name: string, space: string, value: string) =>
      name.length > 2 && isSecretName(name) && !value.startsWith("--") ? `${name}${space}${hidden}` : all,
    );
}

function redactOptionValues(script: string): string {
  let shown = "";
  let end = 0;
  for (const [from, to] of findSecretOptionValues(script)) {
    shown += script.slice(end, from) + hidden;
    end = to;
  }
  return shown + script.slice(end);
}

/** Output of an agent for people: one truncated line, with secrets redacted and control sequences removed. */
export function redactedExcerpt(
  input: Uint8Array | string,
  chars: number = defaults.acpExcerptChars,
): string {
  // Bounds the work: the input may be megabytes. A character has at most four bytes.
  const text = typeof input === "string" ? input : Buffer.from(input.subarray(0, 4 * chars)).toString();
  const line = sanitizeLine(redactText(text.slice(0, 2 * chars)));
  return truncate(text.length > 2 * chars ? `${line}…` : line, chars);
}
