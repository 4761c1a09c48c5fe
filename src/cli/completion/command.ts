import { Argument, type Command } from "commander";
import { NAME_LABEL } from "../../model/enums.js";
import type { SetExitCode } from "../options/command-definition.js";
import { print } from "../print/write-output.js";

/** Arguments and option values that are completed from the store or the config file, by their name in the help. */
const COMPLETED_KINDS = ["run", "session", "task", "agent", "channel", "model", "mode", "option"] as const;
type CompletedKind = (typeof COMPLETED_KINDS)[number];

/** The kind of an argument named `run`, `run|pid`, `session` or `option=value`; null: it is not completed. */
function completedKind(name: string): CompletedKind | null {
  return COMPLETED_KINDS.find((kind) => name.split(/[|=]/).includes(kind)) ?? null;
}

const examples = `
Examples:
  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
  holdfast completion zsh > ~/.zfunc/_holdfast     # a directory of $fpath
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
`;

export function addCompletionCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("completion")
    .summary("print a completion script for your shell")
    .description(
      "Print a script that completes commands, options, runs, sessions, tasks, channels, agents and what the agents offer in your shell.",
    )
    .addArgument(new Argument("<shell>", "the shell").choices(["bash", "zsh", "fish"]))
    .addHelpText("after", examples)
    .action((shell: "bash" | "zsh" | "fish") => {
      print(completionScript(program, shell));
      setExitCode(0);
    });
  program
    .command("__complete", { hidden: true })
    .summary("print the words that complete an argument")
    .description("Print the words that complete an argument, for completion scripts. Read-only.")
    .addArgument(new Argument("<kind>", "the kind of argument").choices(COMPLETED_KINDS))
    .argument("[words...]", "the words of the command so far")
    .action(async (kind: CompletedKind, words: readonly string[]) => {
      setExitCode(await printCompletions(kind, words));
    });
}

/** The words that may follow the given words of a command. */
interface CompletionContext {
  /** `""` is `holdfast` itself, `"runs list"` a command of a group. */
  readonly path: string;
  readonly words: readonly { readonly word: string; readonly about: string; readonly valued?: boolean }[];
  /** The kind of its arguments; null: they are not completed. */
  readonly argument: CompletedKind | null;
  /** Options that take a value, with the kind of the value. */
  readonly valued: readonly { readonly flag: string; readonly kind: CompletedKind | null }[];
}

/** Builds the script from the program, so that no command or option is missing. */
function completionScript(program: Command, shell: "bash" | "zsh" | "fish"): string {
  const contexts = completionContexts(program, "");
  switch (shell) {
    case "bash":
      return bashScript(contexts);
    case "zsh":
      return `#compdef holdfast\nautoload -U +X bashcompinit && bashcompinit\n${bashScript(contexts)}`;
    case "fish":
      return fishScript(contexts);
  }
}

function completionContexts(command: Command, path: string): CompletionContext[] {
  const help = command.createHelp();
  const commands = help.visibleCommands(command);
  const options = help.visibleOptions(command).filter(({ long }) => long !== "--help");
  const words = [
    ...commands.map((each) => ({ word: each.name(), about: each.summary() })),
    ...options.flatMap(({ long, description, required }) =>
      long === undefined || long === null ? [] : [{ word: long, about: description, valued: required }],
    ),
    { word: "--help", about: "print help" },
  ];
  const valued = options.flatMap(({ long, short, required, flags }) => {
    const kind = completedKind(/<([^>]*)>/.exec(flags)?.[1] ?? "");
    return required
      ? [long, short].flatMap((flag) => (flag === undefined || flag === null ? [] : [{ flag, kind }]))
      : [];
  });
  const [first] = command.registeredArguments;
  const argument = first === undefined ? null : completedKind(first.name());
  return [
    { path, words, argument, valued },
    ...commands.flatMap((each) =>
      completionContexts(each, path === "" ? each.name() : `${path} ${each.name()}`),
    ),
  ];
}

function bashScript(contexts: readonly CompletionContext[]): string {
  const cases = contexts.map(({ path, words, argument, valued }) => {
    const flags = valued.map(({ flag }) => flag).join(" ");
    const kinds = valued.flatMap(({ flag, kind }) => (kind === null ? [] : [`${flag}:${kind}`])).join(" ");
    return `    "${path}") words="${words.map(({ word }) => word).join(" ")}" argument="${argument ?? ""}" valued=" ${flags} " kinds=" ${kinds} " ;;`;
  });
  return `_holdfast() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}"
  local path="" words="" argument="" valued="" kinds="" word at
  for ((at = 1; at < COMP_CWORD; at++)); do
    word="\${COMP_WORDS[at]}"
    # Words after -- belong to the command that is run.
    [[ $word == -- ]] && return
    [[ $word == -* ]] && continue
    case " ${contexts.map(({ path }) => path.replaceAll(" ", "/")).join(" ")} " in
      *" \${path:+$path/}$word "*) path="\${path:+$path/}$word" ;;
    esac
  done
  case "\${path//\\// }" in
${cases.join("\n")}
  esac
  if [[ $valued == *" $before "* ]]; then
    [[ $kinds == *" $before:"* ]] || return
    word="\${kinds#* $before:}"
    words="$(holdfast __complete "\${word%% *}" -- "\${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)"
  elif [[ -n $argument && $current != -* ]]; then
    words="$(holdfast __complete "$argument" 2>/dev/null)"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _holdfast holdfast
`;
}

function fishScript(contexts: readonly CompletionContext[]): string {
  const lines = contexts.flatMap(({ path, words, argument, valued }) => {
    const parts = path === "" ? [] : path.split(" ");
    const condition =
      parts.length === 0
        ? "__fish_use_subcommand"
        : parts.map((part) => `__fish_seen_subcommand_from ${part}`).join("; and ");
    const values = (kind: CompletedKind | null | undefined): string =>
      kind === null || kind === undefined
        ? ""
        : ` -f -a '(holdfast __complete ${kind} -- (commandline -opc) 2>/dev/null)'`;
    return [
      ...words.map(({ word, about, valued: hasValue }) =>
        word.startsWith("--")
          ? `complete -c holdfast -n '${condition}' -l ${word.slice(2)}${hasValue === true ? " -r" : ""}${values(valued.find(({ flag }) => flag === word)?.kind)} -d ${quoteForFish(about)}`
          : `complete -c holdfast -n '${condition}' -f -a ${word} -d ${quoteForFish(about)}`,
      ),
      ...(argument === null ? [] : [`complete -c holdfast -n '${condition}'${values(argument)}`]),
    ];
  });
  return `${lines.join("\n")}\n`;
}

function quoteForFish(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

/** Enough for a menu; the newest come first. */
const LIMIT = 200;

/** Prints one word per line. A completion script has no place for errors, so none is printed. */
async function printCompletions(kind: CompletedKind, before: readonly string[]): Promise<number> {
  const words = await SOURCES[kind](before).catch(() => []);
  // A shell splits words at white space, and a word must not hold anything that it would expand.
  const safe = [...new Set(words)].filter((word) => /^[\w.:/@+=-]+$/.test(word));
  if (safe.length > 0) print(`${safe.join("\n")}\n`);
  return 0;
}

const SOURCES: Readonly<Record<CompletedKind, (words: readonly string[]) => Promise<readonly string[]>>> = {
  run: async () => {
    const { openRunView } = await import("../client/read-runs.js");
    await using runs = await openRunView();
    const found = (await runs.view?.listRuns({ hidden: false, limit: LIMIT })) ?? [];
    return found.flatMap(({ runId, labels }) => [runId, labels[NAME_LABEL] ?? runId]);
  },
  session: async () => {
    await using reader = await openReader();
    const { sessions } = await reader.client.listSessions({ query: { limit: LIMIT } });
    return sessions.flatMap(({ id, key }) => [key, id]);
  },
  task: async () => {
    await using reader = await openReader();
    const { tasks } = await reader.client.listTasks({ query: { limit: LIMIT } });
    return tasks.map(({ taskId }) => taskId);
  },
  agent: async () => {
    const [{ readSettings }, { agentsById, agentsFromConfig }] = await Promise.all([
      import("../../config/resolve-settings.js"),
      import("../../agents/catalogue.js"),
    ]);
    return [...agentsById(agentsFromConfig((await readSettings()).config.agents)).keys()];
  },
  channel: async () => {
    const { readSettings } = await import("../../config/resolve-settings.js");
    return Object.keys((await readSettings()).config.channels);
  },
  model: async (words) => (await loadAgentWords())("model", words),
  mode: async (words) => (await loadAgentWords())("mode", words),
  option: async (words) => (await loadAgentWords())("option", words),
};

async function loadAgentWords() {
  return (await import("./agent-words.js")).agentWords;
}

async function openReader() {
  const { openReadClient } = await import("../client/read-client.js");
  return openReadClient();
}
