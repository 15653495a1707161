#include "sim/command/common/describe.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/version.h"

namespace sim::command {

namespace {

struct ExitCode {
  int code;
  const char* meaning;
};
constexpr ExitCode exit_codes[] = {
    {exit_yes, "done, the answer is yes"},
    {exit_no, "done, the answer is no: out of memory, outside tolerance"},
    {exit_usage, "the command line is wrong"},
    {exit_data, "an input breaks a rule"},
    {exit_missing, "an input is not there"},
    {exit_bug, "a bug of ours"},
    {exit_system, "no memory, processes or files to open"},
    {exit_io, "disk full, no permission"},
    {exit_interrupted, "interrupted or locked; --resume goes on"},
};

// Escapes text that roff would read as a request or an escape.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else if ((c == '.' || c == '\'') && (safe.empty() || safe.back() == '\n')) {
      safe += "\\&";
      safe += c;
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string exit_status() {
  std::string text = ".SH EXIT STATUS\n";
  for (const ExitCode& exit : exit_codes)
    text += fmt::format(".TP\n.B {}\n{}\n", exit.code, roff(exit.meaning));
  return text;
}

std::string head(const std::string& name, const std::string& summary) {
  return fmt::format(".TH \"{}\" 1 \"\" \"rehearse {}\" \"rehearse\"\n.SH NAME\n{} \\- {}\n",
                     roff(name), output::version_text, roff(name), roff(summary));
}

// Quotes text in single quotes for bash, zsh and fish.
std::string shell_text(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// The kind of words that may follow a command; `rehearse list KIND` prints them.
const char* words_of(const std::string& command) {
  if (command == "run" || command == "explain" || command == "whatif" || command == "sweep" ||
      command == "memory" || command == "report" || command == "plan")
    return "workloads";
  return command == "topo" ? "clusters" : "";
}

std::string option_text(const Description& description) {
  std::string text;
  for (const OptionRow& option : description.options) {
    text += (text.empty() ? "--" : " --") + option.name;
    if (!option.letter.empty()) text += " -" + option.letter;
  }
  return text;
}

std::string command_text() {
  std::string text;
  for (const Command& command : commands()) text += std::string(command.name) + " ";
  return text + "test bench";
}

std::string bash() {
  std::string text =
      "# Completion of rehearse for bash: made by `rehearse completion bash`.\n"
      "_rehearse() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= "
      "options=\n"
      "  local i names=\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${COMP_WORDS[i]} in -*) ;; *) command=${COMP_WORDS[i]}; break ;; esac\n"
      "  done\n"
      "  case $command in\n";
  text += fmt::format(
      "    '') COMPREPLY=($(compgen -W '{} --help --version --json --quiet' -- \"$word\"));"
      " return ;;\n",
      command_text());
  for (const Command& command : commands()) {
    text += fmt::format(
        "    {}) options='{}'{} ;;\n", command.name, option_text(describe(command)),
        *words_of(command.name) == 0
            ? ""
            : fmt::format("; names=$(rehearse list {} 2>/dev/null)", words_of(command.name)));
  }
  return text +
         "  esac\n"
         "  if [[ $word == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
         "  else\n"
         "    compopt -o filenames 2>/dev/null\n"
         "    COMPREPLY=($(compgen -W \"$names\" -- \"$word\") $(compgen -f -- \"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -F _rehearse rehearse ./rehearse\n";
}

std::string zsh() {
  std::string text =
      "#compdef rehearse\n"
      "# Completion of rehearse for zsh: made by `rehearse completion zsh`.\n"
      "_rehearse() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  const auto safe = [](std::string help) {
    for (const char* mark : {"[", "]", ":"}) {
      for (std::size_t at = 0; (at = help.find(mark, at)) != std::string::npos; at += 2)
        help.insert(at, "\\");
    }
    return help;
  };
  for (const Command& command : commands()) {
    text += fmt::format("    {}\n",
                        shell_text(fmt::format("{}:{}", command.name, safe(command.summary))));
  }
  text +=
      "  )\n"
      "  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
      "  case ${words[2]} in\n";
  for (const Command& command : commands()) {
    text += fmt::format("    {}) _arguments -s", command.name);
    for (const OptionRow& option : describe(command).options) {
      const std::string value =
          option.placeholder.empty() ? "" : fmt::format(":{}:_files", safe(option.placeholder));
      text += " \\\n      " + shell_text(fmt::format("{}--{}[{}]{}", option.repeated ? "*" : "",
                                                     option.name, safe(option.help), value));
    }
    const std::string kind = words_of(command.name);
    text += kind.empty() ? " \\\n      '*:file:_files' ;;\n"
                         : fmt::format(
                               " \\\n      '*:name:{{ _alternative \"names:name:("
                               "$(rehearse list {} 2>/dev/null))\" "
                               "\"files:file:_files\" }}' ;;\n",
                               kind);
  }
  return text +
         "  esac\n}\nif [ \"$funcstack[1]\" = _rehearse ]; then _rehearse \"$@\"; else "
         "compdef _rehearse rehearse; fi\n";
}

std::string fish() {
  std::string text =
      "# Completion of rehearse for fish: made by `rehearse completion fish`.\n"
      "complete -c rehearse -n __fish_use_subcommand -l version -d 'the version'\n";
  for (const Command& command : commands()) {
    text += fmt::format("complete -c rehearse -f -n __fish_use_subcommand -a {} -d {}\n",
                        command.name, shell_text(command.summary));
    const std::string here =
        fmt::format("complete -c rehearse -n '__fish_seen_subcommand_from {}'", command.name);
    for (const OptionRow& option : describe(command).options) {
      text += fmt::format("{} -l {}{}{} -d {}\n", here, option.name,
                          option.letter.empty() ? "" : " -s " + option.letter,
                          option.placeholder.empty() ? "" : " -r", shell_text(option.help));
    }
    if (*words_of(command.name) != 0) {
      text += fmt::format("{} -a '(rehearse list {} 2>/dev/null)'\n", here, words_of(command.name));
    }
  }
  return text;
}

}  // namespace

Description describe(const Command& command) {
  Description description;
  Globals globals;
  globals.describe = &description;
  try {
    command.run({}, globals);
  } catch (const Stop&) {
    // Expected: the command stops when it would read its words.
  }
  return description;
}

std::string man_page(const Command& command) {
  const Description description = describe(command);
  std::string text = head(fmt::format("rehearse-{}", command.name), command.summary) +
                     fmt::format(".SH SYNOPSIS\n.B rehearse {}\n{}\n.SH OPTIONS\n",
                                 roff(command.name), roff(command.synopsis));
  for (const OptionRow& option : description.options) {
    text += fmt::format(
        ".TP\n.B {}\\-\\-{}{}\n{}\n", option.letter.empty() ? "" : "\\-" + option.letter + ", ",
        roff(option.name), option.placeholder.empty() ? "" : " " + roff(option.placeholder),
        roff(option.help));
  }
  text += fmt::format(".SH EXAMPLE\n.B {}\n", roff(example_of(command)));
  return text + exit_status() + ".SH SEE ALSO\n.BR rehearse (1)\n";
}

std::string man_page() {
  std::string text = head("rehearse", "rehearse a training run before you pay for it") +
                     ".SH SYNOPSIS\n.B rehearse\nCOMMAND [ARGUMENTS]\n.SH COMMANDS\n";
  for (const Command& command : commands()) {
    text +=
        fmt::format(".TP\n.B {} \n{}\n{}.\n.BR rehearse\\-{} (1)\n", roff(command.name),
                    roff(command.synopsis) + "\n.br", roff(command.summary), roff(command.name));
  }
  return text + exit_status();
}

const std::vector<Shell>& shells() {
  static const std::vector<Shell> all = {
      {"bash", "rehearse completion bash > ~/.local/share/bash-completion/completions/rehearse",
       bash},
      {"zsh", "rehearse completion zsh > a folder of $fpath, as _rehearse", zsh},
      {"fish", "rehearse completion fish > ~/.config/fish/completions/rehearse.fish", fish},
  };
  return all;
}

}  // namespace sim::command
