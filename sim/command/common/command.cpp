#include "sim/command/common/command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "sim/base/brief.h"
#include "sim/base/outputs.h"
#include "sim/base/text.h"
#include "sim/command/common/heartbeat.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/number_text.h"
#include "sim/output/document.h"
#include "sim/output/json.h"
#include "sim/output/output.h"
#include "sim/output/table.h"
#include "sim/study/sweep/pool.h"

namespace sim::command {

namespace po = boost::program_options;

namespace {
// No guessing of abbreviations: --mod is not --model.
constexpr int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;

const Command* find_command(std::string_view name) {
  const auto& all = commands();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Command& command) { return name == command.name; });
  assert(found != all.end());
  return &*found;
}
}  // namespace

namespace {

// Columns of the terminal; `otherwise` for a file or a pipe.
std::size_t terminal_width(int descriptor, std::size_t otherwise) {
  constexpr std::size_t least = 60;
  struct winsize size {};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0) return otherwise;
  return size.ws_col == 0 ? otherwise : std::max<std::size_t>(least, size.ws_col);
}

}  // namespace

struct Options::Parsed {
  po::options_description description{"Options", 100};
  po::variables_map values;
};

Options::~Options() = default;

Options::Options(const char* command)
    : command_(find_command(command)), parsed_(std::make_unique<Parsed>()) {
  flag("json", "one JSON document on stdout instead of text");
  flag("quiet,q", "no progress and no notes on stderr");
  flag("wide", "lines of text as long as they are, not folded at the terminal's width (100)");
  flag("help,h", "this text");
}

void Options::add(const char* name, const char* placeholder, const char* help, bool repeated) {
  const std::string all(name);
  const std::size_t comma = all.find(',');
  const std::string letter = comma == std::string::npos ? "" : all.substr(comma + 1);
  rows_.push_back({all.substr(0, comma), letter, placeholder, help, repeated});
  names_.push_back("--" + rows_.back().name);
}

Options& Options::flag(const char* name, const char* help) {
  parsed_->description.add_options()(name, po::bool_switch(), help);
  add(name, "", help, false);
  return *this;
}

Options& Options::value(const char* name, const char* placeholder, const char* help) {
  parsed_->description.add_options()(name, po::value<std::string>()->value_name(placeholder), help);
  add(name, placeholder, help, false);
  return *this;
}

Options& Options::output(const char* name, const char* placeholder, const char* help, bool renews) {
  value(name, placeholder, help);
  outputs_.push_back(rows_.back().name);
  if (renews) renewed_.push_back(rows_.back().name);
  return *this;
}

// Checks outputs before the command spends hours on its work.
void Options::declare_outputs() const {
  namespace fs = std::filesystem;
  std::vector<std::pair<fs::path, std::string>> named;
  for (const OptionRow& row : rows_)
    if ((row.placeholder == "FILE" || row.placeholder == "FOLDER") && has(row.name) &&
        (row.repeated ? std::ranges::count(list(row.name), "") > 0 : text(row.name).empty()))
      refuse(
          fmt::format("--{} names no {}", row.name, row.placeholder == "FILE" ? "file" : "folder"));
  for (const OptionRow& row : rows_)
    if (!row.placeholder.empty() && !row.repeated && text(row.name).starts_with("--"))
      refuse(fmt::format("--{} needs a {} before '{}'; a file of that name is './{}'", row.name,
                         row.placeholder, text(row.name), text(row.name)));
  for (const std::string& name : outputs_) {
    if (!has(name)) continue;
    if (const std::string given = text(name); given.starts_with('-') || given.starts_with('='))
      refuse(
          fmt::format("--{}: '{}' looks like no name; write './{}' for such a file, or /dev/stdout",
                      name, given, given));
    std::error_code gone;
    const fs::path path = fs::absolute(text(name), gone).lexically_normal();
    if (gone)
      throw Stop{exit_missing, "the working folder is not there any more: " + gone.message()};
    for (const auto& [other, option] : named) {
      if (other == path && fs::path("/dev") != path.parent_path())
        refuse(fmt::format("--{} and --{} would write the same file", option, name));
    }
    named.emplace_back(path, name);
    const bool made =
        has("output") && fs::absolute(text("output") + "/").lexically_normal() ==
                             fs::absolute(path.parent_path().string() + "/").lexically_normal();
    const bool closed = ::access(path.parent_path().c_str(), W_OK) != 0;
    const int why = closed ? errno : 0;
    if (closed && !fs::exists(path, gone) && !made)
      throw Stop{exit_io, fmt::format("--{}: {}: {}", name, path.parent_path().string(),
                                      std::strerror(why))};
    if (std::ranges::find(renewed_, name) == renewed_.end()) declare_output(path, name);
  }
}

Options& Options::values(const char* name, const char* placeholder, const char* help) {
  parsed_->description.add_options()(
      name, po::value<std::vector<std::string>>()->composing()->value_name(placeholder), help);
  add(name, placeholder, help, true);
  return *this;
}

std::vector<std::string> Options::list(const std::string& name) const {
  return parsed_->values.count(name) > 0 ? parsed_->values[name].as<std::vector<std::string>>()
                                         : std::vector<std::string>{};
}

Options& Options::words(std::size_t least, std::size_t most) {
  least_ = least;
  most_ = most;
  return *this;
}

Options& Options::flags_are_words() {
  flags_are_words_ = true;
  return *this;
}

void Options::refuse(const std::string& message) const {
  throw Stop{exit_usage, fmt::format("{}\nusage: rehearse {} {}\n`rehearse {} --help` says more",
                                     message, command_->name, command_->synopsis, command_->name)};
}

std::string example_of(const Command& command) {
  return fmt::format("rehearse {} {}", command.name, command.example);
}

int start(const Command& command, const Arguments& arguments, Globals globals) {
  try {
    return command.run(arguments, globals);
  } catch (const study::Killed& killed) {
    throw Stop{exit_interrupted, killed.what()};
  } catch (Stop& stop) {
    if (stop.code == exit_usage && !stop.message.empty())
      stop.message += "\nfor example: " + example_of(command);
    throw;
  }
}

std::string Options::help() const {
  std::ostringstream text;
  text << parsed_->description;
  return fmt::format("rehearse {} {}\n  {}\n  for example: {}\n\n{}", command_->name,
                     command_->synopsis, command_->summary, example_of(*command_), text.str());
}

output::Json Options::help_json() const {
  output::Json options = output::Json::array();
  for (const OptionRow& row : rows_)
    options.push_back({{"name", row.name},
                       {"letter", row.letter},
                       {"value", row.placeholder},
                       {"repeated", row.repeated},
                       {"help", row.help}});
  return {{"command", command_->name},
          {"synopsis", command_->synopsis},
          {"summary", command_->summary},
          {"example", example_of(*command_)},
          {"options", std::move(options)}};
}

void Options::parse(const Arguments& arguments, Globals& globals) {
  if (globals.describe != nullptr) {
    *globals.describe = {rows_, least_, most_};
    throw Stop{exit_yes, ""};
  }
  po::options_description all;
  all.add(parsed_->description);
  all.add_options()("words", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("words", -1);
  try {
    po::command_line_parser parser(arguments);
    parser.options(all).positional(positional).style(style);
    if (flags_are_words_) parser.allow_unregistered();
    const po::parsed_options parsed = parser.run();
    po::store(parsed, parsed_->values);
    po::notify(parsed_->values);
    for (const std::string& word : po::collect_unrecognized(parsed.options, po::include_positional))
      for (std::string& part : split_settings(word)) words_.push_back(std::move(part));
  } catch (const po::unknown_option& error) {
    refuse(error.what() + did_you_mean(error.get_option_name(), names_));
  } catch (const po::error& error) {
    refuse(error.what());
  }
  globals.json = globals.json || has("json");
  if (has("help")) {
    print(globals.json ? output::document("help", help_json()).dump(2) + "\n" : help());
    throw Stop{exit_yes, ""};
  }
  globals.quiet = globals.quiet || has("quiet");
  output::set_line_width(has("wide") ? 0 : terminal_width(STDOUT_FILENO, 100));
  if (words_.size() < least_) {
    const std::string needs = command_->synopsis;
    refuse(fmt::format(
        "`rehearse {}` needs {}", command_->name,
        needs.substr(0, std::min({needs.find(" -"), needs.find(" | -"), needs.find(" [")}))));
  }
  if (words_.size() > most_) refuse("'" + words_[most_] + "' is one word too many");
  declare_outputs();
  if (!globals.quiet) start_heartbeat();
}

bool Options::has(const std::string& name) const {
  const auto found = parsed_->values.find(name);
  if (found == parsed_->values.end()) return false;
  const auto* flag = boost::any_cast<bool>(&found->second.value());
  return flag == nullptr || *flag;
}

std::string Options::text(const std::string& name, const std::string& otherwise) const {
  return has(name) ? parsed_->values[name].as<std::string>() : otherwise;
}

std::int64_t Options::number(const std::string& name, std::int64_t otherwise, std::int64_t least,
                             std::int64_t most) const {
  if (!has(name)) return otherwise;
  const std::string given = text(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  if (error != std::errc{} || end != given.data() + given.size() || value < least || value > most) {
    refuse(fmt::format("--{} takes a whole number from {} to {}, not '{}'{}", name, least, most,
                       given, input::thousands_hint(given)));
  }
  return value;
}

std::string Options::choice(const std::string& name, const std::string& otherwise,
                            const std::vector<std::string>& choices) const {
  const std::string given = text(name, otherwise);
  if (std::find(choices.begin(), choices.end(), given) != choices.end()) return given;
  refuse(fmt::format("--{} takes one of {}, not '{}'{}", name, fmt::join(choices, ", "), given,
                     did_you_mean(given, choices)));
}

void Options::only(const std::vector<std::string>& names) const {
  for (const OptionRow& row : rows_) {
    const bool counts = std::ranges::find(names, row.name) != names.end();
    if (!row.placeholder.empty() && has(row.name) && !counts)
      refuse(fmt::format("'{}' takes no --{}", words_[0], row.name));
  }
}

namespace {
Captured* captured = nullptr;
}

void capture(Captured* into) {
  captured = into;
}

void print(std::string_view text) {
  if (captured != nullptr) {
    captured->out += text;
    return;
  }
  const std::string problem = output::write_all(STDOUT_FILENO, text);
  if (!problem.empty()) throw Stop{exit_io, "stdout: " + problem};
}

void say(const Globals& globals, const std::string& command, output::Document document) {
  // Another program in this process parses the JSON, so it needs no indentation.
  const int indent = captured != nullptr ? -1 : 2;
  print(globals.json
            ? output::document(command, output::result(std::move(document))).dump(indent) + "\n"
            : output::text(document));
}

void note(std::string_view text) {
  if (captured != nullptr) {
    captured->err.append(text) += '\n';
    return;
  }
  // Lines to a pipe or a file are not folded, since programs search in them.
  const std::size_t columns = terminal_width(STDERR_FILENO, 0);
  const std::string line = output::fold_lines(std::string(text) + "\n", columns);
  // A failed write to stderr cannot be reported.
  [[maybe_unused]] const std::string ignored = output::write_all(STDERR_FILENO, line);
}

void say_written(const Globals& globals, const std::string& path, const std::string& words) {
  if (globals.json) print(output::document("written", {{"written", path}}).dump(2) + "\n");
  if (!globals.quiet) note(words);
}

void save(const std::string& path, std::string_view text) {
  if (const std::string problem = output::write_file(path, text); !problem.empty())
    throw Stop{exit_io, problem};
}

int jobs_of(const Options& options, int otherwise) {
  return static_cast<int>(options.number("jobs", otherwise, 1, most_jobs));
}

void keep_file(const Options& options, const std::string& path) {
  std::error_code gone;
  const auto kind = std::filesystem::status(path, gone).type();
  const bool kept = kind == std::filesystem::file_type::regular;
  if (kept && !options.has("overwrite"))
    throw Stop{exit_usage, path + " is there already; name another file, or --overwrite"};
}

Options::Named Options::named(std::size_t first) const {
  Named all;
  for (std::size_t i = first; i < words_.size(); ++i) {
    const std::string& word = words_[i];
    if (word.find('=') != std::string::npos) {
      all.settings.push_back(word);
    } else if (all.name.empty()) {
      all.name = word;
    } else {
      refuse(fmt::format("one at a time: '{}' and '{}'", all.name, word));
    }
  }
  return all;
}

std::vector<std::string> split_settings(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (!quoted) depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    const bool separates = (c == ' ' || c == '\t' || c == '\n') && depth == 0 && !quoted;
    if (!separates)
      parts.back() += c;
    else if (!parts.back().empty())
      parts.emplace_back();
  }
  if (parts.back().empty() && parts.size() > 1) parts.pop_back();
  // The first part may be the name of a plan. A path with blanks has no settings after it.
  const bool settings =
      parts.size() > 1 && std::all_of(parts.begin() + 1, parts.end(), [](const std::string& part) {
        return part.find('=') != std::string::npos;
      });
  return settings ? parts : std::vector<std::string>{text};
}

std::string workload_path(const std::string& name) {
  Result<std::string> path = input::locate(input::Kind::workload, name);
  if (path) return *path;
  Diagnostics problems = path.errors();
  for (Diagnostic& problem : problems) problem.where = name;
  throw Stop{complain(problems), ""};
}

namespace {
// All printed problems, for a document of problems.
Diagnostics& complaints() {
  static Diagnostics all;
  return all;
}
}  // namespace

output::Json problems_json(const Diagnostics& problems) {
  output::Json all = output::Json::array();
  for (const Diagnostic& problem : problems)
    all.push_back({{"where", problem.where}, {"message", problem.message}});
  return all;
}

int report_stop(const Stop& stop, bool json) {
  const std::string message = with_brief_quotes(stop.message);
  if (!message.empty()) note("rehearse: " + message);
  if (!json || stop.code == exit_yes) return stop.code;
  Diagnostics problems = std::exchange(complaints(), {});
  if (!message.empty()) problems.push_back({"", message});
  const output::Json document =
      output::document("error", {{"exit_code", stop.code}, {"problems", problems_json(problems)}});
  // Invalid UTF-8 in names and files is replaced.
  const std::string text =
      document.dump(2, ' ', false, output::Json::error_handler_t::replace) + "\n";
  if (captured != nullptr) {
    captured->out += text;
    return stop.code;
  }
  [[maybe_unused]] const std::string ignored = output::write_all(STDOUT_FILENO, text);
  return stop.code;
}

int complain(const Diagnostics& problems) {
  bool data = false;
  for (Diagnostic problem : problems) {
    problem.message = with_brief_quotes(problem.message);
    complaints().push_back(problem);
    note((problem.where.empty() ? "rehearse" : problem.where) + ": error: " + problem.message);
    data = data || problem.fault == Fault::data;
  }
  return data ? exit_data : exit_missing;
}

}  // namespace sim::command
