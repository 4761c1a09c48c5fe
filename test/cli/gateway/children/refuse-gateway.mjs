// Loaded into every process by NODE_OPTIONS: ends a gateway before it starts, as a broken installation would.
// REFUSE_CHECK=1: `gateway run --check` fails. REFUSE_CONFIG: a gateway with this config file fails; `*`: every one.

const words = process.argv.slice(2);
const { REFUSE_CHECK, REFUSE_CONFIG, HOLDFAST_CONFIG } = process.env;
if (words[0] === "gateway" && words[1] === "run") {
  const refused = words.includes("--check")
    ? REFUSE_CHECK === "1"
    : REFUSE_CONFIG === "*" || (REFUSE_CONFIG !== undefined && REFUSE_CONFIG === HOLDFAST_CONFIG);
  if (refused) {
    console.error("holdfast: refused by the test. Nothing was changed");
    process.exit(125);
  }
}
