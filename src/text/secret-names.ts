import { basename } from "node:path";

/** Words that mark the name of an option, variable, header or JSON key as that of a secret. */
const secretWords =
  /^(?:password|passwords|passwd|passphrase|passcode|secret|secrets|credential|credentials|token|apikey|cookie|bearer|pwd|pass)$/;
/** Secret words at the end of a compound word: PGPASSWORD, SSHPASS, authtoken. */
const secretSuffix = /(?:password|passwd|passphrase|secret|token|apikey|sshpass|_auth)$/;
/** `key` alone often names a file or a map key; after one of these words it names a secret. */
const keyOwner =
  /^(?:api|access|private|secret|signing|encryption|account|auth|license|service|master|shared)$/;
/** A name with this ending says where a secret is or how large it is, not its value. */
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
