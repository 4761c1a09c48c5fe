import type { Command } from "commander";

/** The words that may follow a command, with what each is for. */
interface CompletionContext {
  /** `""` is `holdfast` itself, `"runs list"` a command of a command. */
  readonly path: string;
  readonly words: readonly { readonly word: string; readonly about: string; readonly valued?: boolean }[];
  /** Options after which a value is due: nobody here knows any. */
  readonly valued: readonly string[];
}

/** From the program itself, so that no command or option is ever missing. Runs are not completed: that would need a look at the store for each key. */
export function completionScript(program: Command, shell: "bash" | "zsh" | "fish"): string {
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
  const words = [
    ...command.commands.map((each) => ({ word: each.name(), about: each.summary() })),
    ...command.options.flatMap(({ long, description, required }) =>
      long === undefined || long === null ? [] : [{ word: long, about: description, valued: required }],
    ),
    { word: "--help", about: "print help" },
  ];
  const valued = command.options.flatMap(({ long, short, required }) =>
    required ? [long, short].filter((flag) => flag !== undefined && flag !== null) : [],
  );
  return [
    { path, words, valued },
    ...command.commands.flatMap((each) =>
      completionContexts(each, path === "" ? each.name() : `${path} ${each.name()}`),
    ),
  ];
}

function bashScript(contexts: readonly CompletionContext[]): string {
  const cases = contexts.map(
    ({ path, words, valued }) =>
      `    "${path}") words="${words.map(({ word }) => word).join(" ")}" valued=" ${valued.join(" ")} " ;;`,
  );
  return `_holdfast() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" words="" valued="" word at
  for ((at = 1; at < COMP_CWORD; at++)); do
    word="\${COMP_WORDS[at]}"
    # What comes after -- is the command's own.
    [[ $word == -- ]] && return
    [[ $word == -* ]] && continue
    case " ${contexts.map(({ path }) => path.replaceAll(" ", "/")).join(" ")} " in
      *" \${path:+$path/}$word "*) path="\${path:+$path/}$word" ;;
    esac
  done
  case "\${path//\\// }" in
${cases.join("\n")}
  esac
  [[ $valued == *" \${COMP_WORDS[COMP_CWORD-1]} "* ]] && return
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _holdfast holdfast
`;
}

function fishScript(contexts: readonly CompletionContext[]): string {
  const lines = contexts.flatMap(({ path, words }) => {
    const parts = path === "" ? [] : path.split(" ");
    const condition =
      parts.length === 0
        ? "__fish_use_subcommand"
        : parts.map((part) => `__fish_seen_subcommand_from ${part}`).join("; and ");
    return words.map(({ word, about, valued }) =>
      word.startsWith("--")
        ? `complete -c holdfast -n '${condition}' -l ${word.slice(2)}${valued === true ? " -r" : ""} -d ${quoteForFish(about)}`
        : `complete -c holdfast -n '${condition}' -f -a ${word} -d ${quoteForFish(about)}`,
    );
  });
  return `${lines.join("\n")}\n`;
}

function quoteForFish(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
