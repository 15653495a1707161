#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "sim/input/launch/shell/arithmetic.h"
#include "sim/input/launch/shell/directives.h"
#include "sim/input/launch/shell/expand.h"
#include "sim/input/launch/shell/script.h"
#include "sim/input/launch/shell/test.h"

namespace sim::shell {
namespace {

constexpr int max_depth = 24;
constexpr int max_steps = 20'000;
constexpr int max_rounds = 1000;  // of `for`
constexpr int max_repeats = 64;   // of `while` and `until`, whose counters are not all followed
constexpr std::int64_t max_index = 4096;
constexpr std::size_t max_files = 64;
// Budget of expanded bytes: proportional to the script's size, up to a maximum.
constexpr std::int64_t bytes_least = 256 << 10;
constexpr std::int64_t bytes_each = 256;
constexpr std::int64_t bytes_most = 32 << 20;
constexpr std::size_t max_words = 1 << 18;

// Result of a command. `ran`: a program, which is not executed.
enum class Status : std::uint8_t { yes, no, ran };

// A followed text; its tree refers to it.
struct Source {
  std::string text;
  std::vector<std::uint32_t> places;  // empty: the script itself
  Node tree;
};

struct Function {
  const Node* body = nullptr;
  const Source* source = nullptr;
};

class Follower {
 public:
  Follower(const std::set<std::size_t>& flipped, const Sourced& sourced)
      : flipped_(flipped), sourced_(sourced) {}

  Script run(std::string_view text) {
    std::string script = clean(text.substr(0, max_text));
    if (text.size() > max_text) exceed(fmt::format("more than {} bytes", max_text), max_text);
    budget_ =
        std::min(bytes_least + bytes_each * static_cast<std::int64_t>(script.size()), bytes_most);
    add_directives(script, out_.directives);
    set_job_variables();
    follow(std::move(script), {});
    for (const auto& [name, variable] : environment_.all()) {
      std::vector<Word>& words = out_.variables[name];
      for (const Text& element : variable.elements)
        for (const Text& part : element.parts()) words.push_back(environment_.word(part));
    }
    return std::move(out_);
  }

 private:
  void exceed(std::string what, std::size_t at) {
    if (!out_.limit) out_.limit = {std::move(what), at};
  }

  void exceed_rounds(int most, const Node& loop) {
    exceed(fmt::format("a loop of more than {} rounds", most), expander().place(loop.at));
  }

  // Remove the bytes that encode unknown parts.
  static std::string clean(std::string_view text) {
    std::string cleaned(text);
    std::replace(cleaned.begin(), cleaned.end(), '\x01', ' ');
    std::replace(cleaned.begin(), cleaned.end(), '\x02', ' ');
    return cleaned;
  }

  // Variables that the batch system sets. They have the place of the script's first byte.
  void set_job_variables() {
    for (const auto& [name, value] : job_variables(out_.directives)) {
      Text text;
      text.put(std::string_view(value), 0);
      environment_[name].elements = {text};
    }
  }

  void follow(std::string text, std::vector<std::uint32_t> places) {
    const std::size_t at = places.empty() ? 0 : places.front();
    if (depth_ >= max_depth)
      return exceed(fmt::format("nested over {} levels deep", max_depth), at);
    sources_.push_back({std::move(text), std::move(places), {}});
    Source& source = sources_.back();
    bool too_deep = false;
    source.tree = parse(source.text, too_deep);
    if (too_deep) exceed("nested too deep to be read", at);
    const Source* outer = source_;
    source_ = &source;
    run(source.tree);
    source_ = outer;
  }

  Expander expander() {
    return {environment_, source_->places.empty() ? nullptr : &source_->places, budget_};
  }

  Status run(const Node& node) {
    if (++steps_ > max_steps || budget_ <= 0 || depth_ >= max_depth) {
      exceed(steps_ > max_steps ? fmt::format("more than {} commands", max_steps)
             : budget_ <= 0     ? "variables and files that grow without bound"
                                : fmt::format("nested over {} levels deep", max_depth),
             expander().place(node.at));
      return Status::ran;
    }
    ++depth_;
    const Status status = run_kind(node);
    --depth_;
    return status;
  }

  Status run_kind(const Node& node) {
    switch (node.kind) {
      case Node::Kind::simple:
        return simple(node);
      case Node::Kind::sequence: {
        Status last = Status::yes;
        for (const Node& part : node.parts) {
          last = run(part);
          if (returning_) break;
        }
        return last;
      }
      case Node::Kind::both:
      case Node::Kind::either: {
        const bool go_on = (run(node.parts[0]) != Status::no) == (node.kind == Node::Kind::both);
        return go_on && node.parts.size() > 1 ? run(node.parts[1]) : Status::ran;
      }
      case Node::Kind::negated: {
        const Status status = node.parts.empty() ? Status::yes : run(node.parts[0]);
        if (status == Status::ran) return status;
        return status == Status::yes ? Status::no : Status::yes;
      }
      case Node::Kind::branch:
        return branch(node);
      case Node::Kind::loop:
        return loop(node);
      case Node::Kind::repeat:
        return repeat(node);
      case Node::Kind::choice:
        return choice(node);
      case Node::Kind::function:
        if (!node.parts.empty()) functions_[node.name] = {&node.parts.front(), source_};
        return Status::yes;
      case Node::Kind::arithmetic:
        return sum(node);
      case Node::Kind::conditional: {
        std::vector<Text> words;
        for (const Raw& word : node.words) words.push_back(expander().single(word));
        return decide(test(words, true, environment_), node.at);
      }
    }
    return Status::ran;
  }

  Status decide(Answer answer, std::size_t at) {
    if (answer.known) return answer.yes ? Status::yes : Status::no;
    const std::size_t place = expander().place(at);
    const bool taken = answer.yes != flipped_.contains(place);
    const Undecided one{place, taken};
    if (std::find(out_.undecided.begin(), out_.undecided.end(), one) == out_.undecided.end())
      out_.undecided.push_back(one);
    return taken ? Status::yes : Status::no;
  }

  // The result of a program is unknown. Guess that it fails (is this installed? does this file
  // exist?).
  bool holds(const Node& condition) {
    const Status status = run(condition);
    return (status == Status::ran ? decide({false, false}, condition.at) : status) == Status::yes;
  }

  Status branch(const Node& node) {
    std::size_t i = 0;
    for (; i + 1 < node.parts.size(); i += 2)
      if (holds(node.parts[i])) return run(node.parts[i + 1]);
    return i < node.parts.size() ? run(node.parts[i]) : Status::yes;
  }

  Status loop(const Node& node) {
    std::vector<Text> values = expander().fields(node.words);
    if (node.words.empty()) values = environment_.arguments;
    if (values.size() > 1) out_.loops.push_back(expander().place(node.at));
    if (values.size() > max_rounds) {
      exceed_rounds(max_rounds, node);
      values.resize(max_rounds);
    }
    for (const Text& value : values) {
      if (!node.name.empty()) environment_[node.name] = {false, {value}};
      run(node.parts.front());
      if (returning_) break;
    }
    return Status::yes;
  }

  Status repeat(const Node& node) {
    const bool until = node.name == "until";
    for (int round = 0;; ++round) {
      if (round == max_repeats) {
        exceed_rounds(max_repeats, node);
        break;
      }
      const Status status = run(node.parts[0]);
      // A loop over a program's result, or an endless loop, is followed once.
      const bool forever = status != Status::ran && node.parts[0].parts.size() == 1 &&
                           node.parts[0].parts[0].words.size() == 1;
      if (status == Status::ran || (status == Status::yes) == until) break;
      run(node.parts[1]);
      if (forever || returning_) break;
    }
    return Status::yes;
  }

  Status choice(const Node& node) {
    bool unsure = false;
    const auto subject = environment_.tested(expander().single(node.words.front()), unsure);
    for (const Node& arm : node.parts)
      for (const Raw& pattern : arm.words)
        if (subject ? matches(*subject, expander().single(pattern).bytes) : pattern.text == "*")
          return run_arm(arm);
    return Status::yes;
  }

  Status run_arm(const Node& arm) {
    Status last = Status::yes;
    for (const Node& part : arm.parts) last = run(part);
    return last;
  }

  Status sum(const Node& node) {
    // (( i++ )) and (( i += 2 )) would change a variable. The change is ignored, because no setting
    // of a run depends on a counter.
    const Text text = expander().single(node.words.front());
    const auto value =
        text.unknown() ? std::nullopt : arithmetic(text.bytes, [&](const std::string& name) {
          const Variable* variable = environment_.find(name);
          const bool known =
              variable && !variable->elements.empty() && !variable->elements.front().unknown();
          return known ? std::optional(variable->elements.front().bytes) : std::nullopt;
        });
    if (!value) return decide({false, false}, node.at);
    return *value != 0 ? Status::yes : Status::no;
  }

  void assign(const Assignment& one) {
    Variable& variable = environment_[one.name];
    if (one.array) {
      std::vector<Text> elements = expander().fields(one.words);
      if (!one.append) variable.elements.clear();
      variable.array = true;
      if (variable.elements.size() + elements.size() > max_words) elements.clear();
      for (Text& element : elements) variable.elements.push_back(std::move(element));
      return;
    }
    const Text value = one.words.empty() ? Text() : expander().single(one.words.front());
    if (!one.index.text.empty()) {
      const Text index = expander().single(one.index);
      const auto n =
          arithmetic(index.bytes, [](const std::string&) { return std::optional<std::string>(); });
      variable.array = true;
      if (!n || *n < 0 || *n > max_index) return;
      if (variable.elements.size() <= static_cast<std::size_t>(*n))
        variable.elements.resize(static_cast<std::size_t>(*n) + 1);
      variable.elements[static_cast<std::size_t>(*n)] = value;
    } else if (one.append && !variable.elements.empty()) {
      variable.elements.front().put(value);
    } else {
      variable = {variable.array, {value}};
    }
  }

  Status simple(const Node& node) {
    const std::vector<Text> fields = expander().fields(node.words);
    const std::string name = fields.empty() ? "" : environment_.plain(fields.front());
    const bool declares = name == "export" || name == "declare" || name == "local" ||
                          name == "readonly" || name == "typeset";
    if (fields.empty() || declares) {
      for (const Assignment& one : node.assignments) assign(one);
      if (name == "export") note_exports(node, fields);
      return Status::yes;
    }
    written(node, name, fields);
    if (name == "[" || name == "test") {
      // An operand that expands to nothing would change the test: read the words unsplit.
      std::vector<Text> whole;
      for (std::size_t i = 1; i < node.words.size(); ++i)
        whole.push_back(expander().single(node.words[i]));
      if (!whole.empty() && whole.back().bytes == "]") whole.pop_back();
      return decide(test(whole, false, environment_), node.at);
    }
    if (name == "true" || name == ":") return Status::yes;
    if (name == "false") return Status::no;
    if (name == "sbatch" && submitted(node, fields)) return Status::yes;
    if (builtin(name, fields)) return Status::yes;
    if (const auto found = functions_.find(name); found != functions_.end())
      return call(found->second, fields);
    command(node, fields);
    inner(fields);
    return Status::ran;
  }

  // `export NAME=value` and `export NAME`.
  void note_exports(const Node& node, const std::vector<Text>& fields) {
    for (const Assignment& one : node.assignments) out_.exported.insert(one.name);
    for (std::size_t i = 1; i < fields.size(); ++i)
      if (std::string word = environment_.plain(fields[i]); !word.starts_with('-'))
        out_.exported.insert(std::move(word));
  }

  // `cat <<END > file` and `echo text > file`.
  void written(const Node& node, const std::string& name, const std::vector<Text>& fields) {
    if (node.output.text.empty() || out_.files.size() > max_files) return;
    Text text;
    if (name == "cat" && !node.documents.empty()) {
      const HereDocument& document = node.documents.front();
      if (document.quoted)
        text.put(document.body.text, document.body.at);
      else
        text = expander().document(document.body);
    } else if (name == "echo") {
      for (std::size_t i = 1; i < fields.size(); ++i) {
        if (i > 1) text.put(' ', 0);
        text.put(fields[i]);
      }
    } else {
      return;
    }
    out_.files[environment_.plain(expander().single(node.output))] = environment_.plain(text);
  }

  // A sourced file: its words have the place of the `source` command.
  void read_file(const Word& path, bool job = false) {
    std::optional<std::string> text = sourced_ ? sourced_(path) : std::nullopt;
    if (!text || text->size() > max_text) {
      out_.sourced.push_back(path);
      return;
    }
    budget_ -= static_cast<std::int64_t>(text->size());
    if (budget_ <= 0) return exceed("files that are read over and over", path.at);
    if (job) {
      add_directives(*text, out_.directives);  // after the options of sbatch, which win
      set_job_variables();
    }
    std::vector<std::uint32_t> places(text->size(), static_cast<std::uint32_t>(path.at));
    follow(clean(*text), std::move(places));
  }

  // TP=8 sbatch -p main --nodes=4 --export=ALL,PP=2 job.sh 8: the job gets the current variables
  // and changes none of them. Options of sbatch override the job's directives. False if no job is
  // named.
  bool submitted(const Node& node, const std::vector<Text>& fields) {
    const auto job = std::find_if(fields.begin() + 1, fields.end(), [](const Text& field) {
      const std::string& text = field.bytes;
      return !text.starts_with('-') &&
             (text.ends_with(".sh") || text.ends_with(".slurm") || text.ends_with(".sbatch"));
    });
    if (job == fields.end()) return false;
    const Environment before = environment_;
    const auto functions = functions_;
    for (const Assignment& one : node.assignments) assign(one);
    for (auto option = fields.begin() + 1; option != job; ++option) {
      constexpr std::string_view exported = "--export=";
      if (option->bytes.starts_with(exported))
        set_exported(option->part(exported.size(), option->bytes.size() - exported.size()));
      else if (option->bytes.starts_with("--"))
        out_.directives.push_back("#SBATCH " + environment_.plain(*option));
    }
    environment_.arguments.assign(job + 1, fields.end());
    read_file(environment_.word(*job), true);
    environment_ = before;
    functions_ = functions;
    returning_ = false;
    return true;
  }

  // "ALL,TP=8,PP=2": sets the variables that have a value.
  void set_exported(const Text& list) {
    for (std::size_t at = 0; at < list.bytes.size();) {
      const std::size_t end = std::min(list.bytes.find(',', at), list.bytes.size());
      const std::size_t equals = list.bytes.find('=', at);
      if (equals < end)
        environment_[list.bytes.substr(at, equals - at)].elements = {
            list.part(equals + 1, end - equals - 1)};
      at = end + 1;
    }
  }

  bool builtin(const std::string& name, const std::vector<Text>& fields) {
    if (name == "source" || name == ".") {
      if (fields.size() > 1) read_file(environment_.word(fields[1]));
      return true;
    }
    if (name == "set") {
      const auto dashes = std::find_if(fields.begin(), fields.end(),
                                       [](const Text& text) { return text.bytes == "--"; });
      if (dashes != fields.end()) environment_.arguments.assign(dashes + 1, fields.end());
      return true;
    }
    if (name == "shift") {
      auto& arguments = environment_.arguments;
      if (!arguments.empty()) arguments.erase(arguments.begin());
      return true;
    }
    if (name == "unset") {
      for (std::size_t i = 1; i < fields.size(); ++i) environment_.unset(fields[i].bytes);
      return true;
    }
    if (name == "return") return returning_ = functions_open_ > 0, true;
    if (name == "eval") {
      Text text;
      for (std::size_t i = 1; i < fields.size(); ++i) {
        if (i > 1) text.put(' ', text.at.empty() ? 0 : text.at.back());
        text.put(fields[i]);
      }
      follow(std::move(text.bytes), std::move(text.at));
      return true;
    }
    return false;
  }

  Status call(const Function& function, const std::vector<Text>& fields) {
    const Source* outer = source_;
    std::vector<Text> arguments(fields.begin() + 1, fields.end());
    std::swap(environment_.arguments, arguments);
    source_ = function.source;
    ++functions_open_;
    const Status status = run(*function.body);
    --functions_open_;
    returning_ = false;
    source_ = outer;
    std::swap(environment_.arguments, arguments);
    return status;
  }

  void command(const Node& node, const std::vector<Text>& fields) {
    Command command;
    for (const Assignment& one : node.assignments) {
      Text text;
      if (!one.words.empty()) text = expander().single(one.words.front());
      Word word = environment_.word(text);
      word.text.insert(0, one.name + "=");
      command.assignments.push_back(std::move(word));
    }
    if (words_ + fields.size() > max_words) return;
    words_ += fields.size();
    for (const Text& field : fields) command.words.push_back(environment_.word(field));
    out_.commands.push_back(std::move(command));
  }

  // srun ... bash -c "...": the text is followed too.
  void inner(const std::vector<Text>& fields) {
    for (std::size_t i = 0; i + 2 < fields.size(); ++i) {
      const std::string& shell = fields[i].bytes;
      const std::string& option = fields[i + 1].bytes;
      const bool is_shell = shell == "bash" || shell == "sh" || shell == "zsh" ||
                            shell.ends_with("/bash") || shell.ends_with("/sh");
      if (is_shell && option.starts_with('-') && option.ends_with('c'))
        return follow(fields[i + 2].bytes, fields[i + 2].at);
    }
  }

  const std::set<std::size_t>& flipped_;
  const Sourced& sourced_;
  Script out_;
  Environment environment_;
  std::deque<Source> sources_;
  const Source* source_ = nullptr;
  std::map<std::string, Function, std::less<>> functions_;
  int depth_ = 0, steps_ = 0, functions_open_ = 0;
  bool returning_ = false;
  std::size_t words_ = 0;
  std::int64_t budget_ = bytes_least;
};

}  // namespace

Script follow(std::string_view text, const std::set<std::size_t>& flipped, const Sourced& sourced) {
  return Follower(flipped, sourced).run(text);
}

TextPosition place(std::string_view text, std::size_t at) {
  TextPosition place;
  for (std::size_t i = 0; i < at && i < text.size(); ++i) {
    place.column = text[i] == '\n' ? 1 : place.column + 1;
    place.line += text[i] == '\n' ? 1 : 0;
  }
  return place;
}

}  // namespace sim::shell
