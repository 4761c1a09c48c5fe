/** Words that make the name of an option, variable, header or JSON key a secret's. */
const secretWords =
  /^(?:password|passwords|passwd|passphrase|passcode|secret|secrets|credential|credentials|token|apikey|cookie|bearer|pwd|pass)$/;
/** Written as one word: PGPASSWORD, SSHPASS, authtoken. */
const secretSuffix = /(?:password|passwd|passphrase|secret|token|apikey|sshpass|_auth)$/;
/** `key` alone is as often a file or a map's key; with one of these before it, it is not. */
const keyOwner =
  /^(?:api|access|private|secret|signing|encryption|account|auth|license|service|master|shared)$/;
/** A name that ends so tells where a secret is, or how large, not what it is. */
const aboutSecret =
  /^(?:file|files|path|dir|directory|name|names|id|ids|url|uri|endpoint|type|kind|count|limit|length|size|max|min|budget|expiry|ttl|timeout|stdin|prompt|policy|env|var|manager|store|helper|scope|scopes|audience|issuer|usage|number)$/;

/** Does a value under this name deserve hiding? Errs towards hiding. */
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
