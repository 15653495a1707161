// command.h — what the files of the commands share: the table of commands, exit codes, options with
// checked values, and output that is known to have arrived.
//
// Invariants
//  (1) Results go to stdout, everything else to stderr.
//  (2) An option is never guessed from an abbreviation; a number outside its range is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"
#include "sim/output/json.h"

namespace sim::output {
struct Document;
}

namespace sim::command {

enum Exit : int {
  exit_yes = 0,  // done, the answer is yes
  exit_no = 2,   // done, the answer is no: out of memory, outside tolerance
  exit_usage = 64,
  exit_data = 65,     // an input file breaks a rule
  exit_missing = 66,  // an input file is not there
  exit_bug = 70,
  exit_system = 71,       // no memory, no processes, no files to open
  exit_io = 74,           // disk full, no permission
  exit_interrupted = 75,  // interrupted or locked; --resume goes on
};

struct OptionRow {
  std::string name, letter;  // "output", "o"; the letter may be missing
  std::string placeholder;   // "FILE"; "" for a flag
  std::string help;
  bool repeated = false;
};
// What a command accepts.
struct Description {
  std::vector<OptionRow> options;
  std::size_t least = 0, most = 0;  // words that are no options
};

struct Globals {
  bool json = false;
  bool quiet = false;
  Description* describe = nullptr;  // where a command is to describe itself instead of running
};

// Arguments of a command as the user gave them, after its name.
using Arguments = std::vector<std::string>;

struct Command {
  const char* name;
  const char* synopsis;  // "PLAN [KEY=VALUE ...]"
  const char* summary;
  const char* example;  // "llama-2-7b-64 tp=4"
  int (*run)(const Arguments& arguments, Globals globals);
};

const std::vector<Command>& commands();

// "rehearse run llama-2-7b-64 tp=4".
std::string example_of(const Command& command);
// Runs it; what it cannot understand ends in a command that it would.
int start(const Command& command, const Arguments& arguments, Globals globals);

int run_list(const Arguments& arguments, Globals globals);
int run_check(const Arguments& arguments, Globals globals);
int run_run(const Arguments& arguments, Globals globals);
int run_explain(const Arguments& arguments, Globals globals);
int run_sweep(const Arguments& arguments, Globals globals);
int run_memory(const Arguments& arguments, Globals globals);
int run_calibrate(const Arguments& arguments, Globals globals);
int run_schedule(const Arguments& arguments, Globals globals);
int run_topo(const Arguments& arguments, Globals globals);
int run_whatif(const Arguments& arguments, Globals globals);
int run_plan(const Arguments& arguments, Globals globals);
int run_merge(const Arguments& arguments, Globals globals);
int run_report(const Arguments& arguments, Globals globals);
int run_doc(const Arguments& arguments, Globals globals);
int run_init(const Arguments& arguments, Globals globals);
int run_completion(const Arguments& arguments, Globals globals);
int run_man(const Arguments& arguments, Globals globals);
int run_campaign(const Arguments& arguments, Globals globals);
int run_compare(const Arguments& arguments, Globals globals);
int run_validate(const Arguments& arguments, Globals globals);

// Thrown by the commands, never by the rooms below; main prints the message and returns the code.
struct Stop {
  int code;
  std::string message;  // may be empty: everything is said
};

// Says why a command stopped: on stderr in words and, with `json`, on stdout as a document
// (sim/formats.md); its exit code.
int report_stop(const Stop& stop, bool json);

// What a command accepts. Values stay text until they are asked for.
class Options {
 public:
  explicit Options(const char* command);
  ~Options();

  Options& flag(const char* name, const char* help);
  // `name` may be "output,o".
  Options& value(const char* name, const char* placeholder, const char* help);
  // A file that the command writes: none of its inputs, and in a folder that is there or that
  // --output makes. Unless it `renews` a file that it has read whole before it writes.
  Options& output(const char* name, const char* placeholder, const char* help, bool renews = false);
  // May be given again.
  Options& values(const char* name, const char* placeholder, const char* help);
  // Words that are no options: at least `least`, at most `most`.
  Options& words(std::size_t least, std::size_t most);
  // What looks like an option and is none of the command's is a word: the flag of another program.
  Options& flags_are_words();

  // Stops with a usage error, or with the help text (code 0) when --help is there.
  void parse(const Arguments& arguments, Globals& globals);

  bool has(const std::string& name) const;
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  std::vector<std::string> list(const std::string& name) const;
  // A whole number in [least, most], or a usage error.
  std::int64_t number(const std::string& name, std::int64_t otherwise, std::int64_t least,
                      std::int64_t most) const;
  // One of `choices`, or a usage error that names the nearest.
  std::string choice(const std::string& name, const std::string& otherwise,
                     const std::vector<std::string>& choices) const;
  // Of all values that may be given, only these count for what the first word asks for: a usage
  // error where another is given.
  void only(const std::vector<std::string>& names) const;
  const std::vector<std::string>& words() const { return words_; }
  // The words from `first` on as one name and settings; a second name is a usage error.
  struct Named {
    std::string name;                   // of a plan or a cluster, or a path; may be missing
    std::vector<std::string> settings;  // "pp=4", "fabric.oversubscription=4"
  };
  Named named(std::size_t first = 0) const;

 private:
  [[noreturn]] void refuse(const std::string& message) const;
  std::string help() const;

  void add(const char* name, const char* placeholder, const char* help, bool repeated);
  void declare_outputs() const;
  struct Parsed;  // Program_options' own, whose headers take seconds to compile

  const Command* command_;
  std::vector<std::string> names_, outputs_, renewed_;
  std::vector<OptionRow> rows_;
  std::unique_ptr<Parsed> parsed_;
  std::vector<std::string> words_;
  std::size_t least_ = 0, most_ = 0;
  bool flags_are_words_ = false;
};

// Where print() and note() write, until it is called with nullptr, instead of stdout and stderr:
// for commands in another program's process (session.h).
struct Captured {
  std::string out, err;
};
void capture(Captured* into);

// Writes a result to stdout; stops with exit_io when it did not arrive.
void print(std::string_view text);
// Writes what a command has to say: its text or, with --json, `rehearse/COMMAND/1`.
void say(const Globals& globals, const std::string& command, output::Document document);
// Notes and problems, to stderr.
void note(std::string_view text);
// That a file or a folder was written: a note or, with --json, `rehearse/written/1`.
void say_written(const Globals& globals, const std::string& path, const std::string& words);

// Stops where the file is there already, unless --overwrite, which the command declares. A device
// and a pipe have nothing to lose.
void keep_file(const Options& options, const std::string& path);

// The path of a plan or grid: a file, or the name of one of workloads/. Stops when there is none.
std::string workload_path(const std::string& name);

// [{"where": ..., "message": ...}].
output::Json problems_json(const Diagnostics& problems);

// Prints every problem as "where: error: message"; the exit code that they mean.
int complain(const Diagnostics& problems);

// The value, or stops after complaining.
template <class T>
T need(Result<T> result) {
  if (!result) throw Stop{complain(result.errors()), ""};
  return *result;
}

}  // namespace sim::command
