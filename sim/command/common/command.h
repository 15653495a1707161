// command.h — shared by all commands: the table of commands, exit codes, options with checked
// values, and output with checked writes.
//
// Invariants
// (1) Results go to stdout, everything else to stderr.
// (2) An option is never guessed from an abbreviation. A number outside of its range is refused.
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
  exit_missing = 66,  // an input file is missing
  exit_bug = 70,
  exit_system = 71,       // no memory, no processes, no file descriptors
  exit_io = 74,           // disk full, no permission
  exit_interrupted = 75,  // interrupted or locked; --resume continues
};

struct OptionRow {
  std::string name, letter;  // "output", "o"; the letter is optional
  std::string placeholder;   // "FILE"; "" for a flag
  std::string help;
  bool repeated = false;
};
// The options and the number of words that a command accepts.
struct Description {
  std::vector<OptionRow> options;
  std::size_t least = 0, most = 0;  // number of words that are not options
};

struct Globals {
  bool json = false;
  bool quiet = false;
  Description* describe = nullptr;  // if set, the command describes itself instead of running
};

// Arguments of a command, after its name.
using Arguments = std::vector<std::string>;

struct Command {
  const char* name;
  const char* synopsis;  // "PLAN [KEY=VALUE ...]"
  const char* summary;
  const char* example;  // "llama-2-7b-64 tp=4"
  int (*run)(const Arguments& arguments, Globals globals);
};

const std::vector<Command>& commands();

// A complete example: "rehearse run llama-2-7b-64 tp=4".
std::string example_of(const Command& command);
// Runs a command. A usage error ends with an example that works.
int start(const Command& command, const Arguments& arguments, Globals globals);

int run_list(const Arguments& arguments, Globals globals);
int run_check(const Arguments& arguments, Globals globals);
int run_run(const Arguments& arguments, Globals globals);
int run_explain(const Arguments& arguments, Globals globals);
int run_sweep(const Arguments& arguments, Globals globals);
int run_memory(const Arguments& arguments, Globals globals);
int run_calibrate(const Arguments& arguments, Globals globals);
int run_capture(const Arguments& arguments, Globals globals);
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
int run_serve(const Arguments& arguments, Globals globals);
int run_validate(const Arguments& arguments, Globals globals);

// Thrown by commands only, never by lower rooms; main prints the message and returns the code.
struct Stop {
  int code;
  std::string message;  // may be empty if the problem is already printed
};

// Prints why a command stopped: on stderr as text and, with `json`, on stdout as a document
// (sim/formats.md). Returns the exit code.
int report_stop(const Stop& stop, bool json);

// The options of a command and their parsed values. Values are checked when they are read.
class Options {
 public:
  explicit Options(const char* command);
  ~Options();

  Options& flag(const char* name, const char* help);
  // An option with a value; `name` may be "output,o".
  Options& value(const char* name, const char* placeholder, const char* help);
  // A file that the command writes. It must not be an input, and its folder must exist or be made
  // by --output. `renews`: the file may be an input, since the command reads all of it before it
  // writes.
  Options& output(const char* name, const char* placeholder, const char* help, bool renews = false);
  // An option that may be repeated.
  Options& values(const char* name, const char* placeholder, const char* help);
  // Number of words that are not options: at least `least`, at most `most`.
  Options& words(std::size_t least, std::size_t most);
  // Unknown options count as words: they are flags of another program.
  Options& flags_are_words();

  // Parses the arguments. Stops with a usage error, or with the help text (code 0) for --help.
  void parse(const Arguments& arguments, Globals& globals);

  bool has(const std::string& name) const;
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  std::vector<std::string> list(const std::string& name) const;
  // A whole number in [least, most]; otherwise a usage error.
  std::int64_t number(const std::string& name, std::int64_t otherwise, std::int64_t least,
                      std::int64_t most) const;
  // One of `choices`; otherwise a usage error with the nearest choice.
  std::string choice(const std::string& name, const std::string& otherwise,
                     const std::vector<std::string>& choices) const;
  // Only these options have an effect for the command's first word; others are a usage error.
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
  output::Json help_json() const;

  void add(const char* name, const char* placeholder, const char* help, bool repeated);
  void declare_outputs() const;
  struct Parsed;  // hides Program_options, whose headers take seconds to compile

  const Command* command_;
  std::vector<std::string> names_, outputs_, renewed_;
  std::vector<OptionRow> rows_;
  std::unique_ptr<Parsed> parsed_;
  std::vector<std::string> words_;
  std::size_t least_ = 0, most_ = 0;
  bool flags_are_words_ = false;
};

// Redirects print() and note() from stdout and stderr to `into`; nullptr ends it. For commands
// inside another program's process (session.h).
struct Captured {
  std::string out, err;
};
void capture(Captured* into);

// Writes a result to stdout; stops with exit_io if the write fails.
void print(std::string_view text);
// Writes a command's document as text or, with --json, as `rehearse/COMMAND/1`.
void say(const Globals& globals, const std::string& command, output::Document document);
// Writes a note or a problem to stderr.
void note(std::string_view text);
// Reports a written file or folder: a note or, with --json, `rehearse/written/1`.
void say_written(const Globals& globals, const std::string& path, const std::string& words);

// Writes a whole file, or stops with exit_io.
void save(const std::string& path, std::string_view text);

// Processes or threads that a command may have at once.
inline constexpr std::int64_t most_jobs = 1024;
// The value of --jobs; `otherwise` without it.
int jobs_of(const Options& options, int otherwise);

// Stops if the file exists, unless --overwrite is set (the command declares it). Devices and pipes
// are always written.
void keep_file(const Options& options, const std::string& path);

// The settings of a plan that a shell passes as one word: "model=llama-2-7b tp=8". A blank inside
// of braces, brackets or quotes does not separate. A text without such settings is one word.
std::vector<std::string> split_settings(const std::string& text);

// The path of a plan or grid: a file, or a name in workloads/. Stops if there is none.
std::string workload_path(const std::string& name);

// Problems as [{"where": ..., "message": ...}].
output::Json problems_json(const Diagnostics& problems);

// Prints every problem as "where: error: message" and returns their exit code.
int complain(const Diagnostics& problems);

// The value of a result; prints its problems and stops if there is none.
template <class T>
T need(Result<T> result) {
  if (!result) throw Stop{complain(result.errors()), ""};
  return *result;
}

}  // namespace sim::command
