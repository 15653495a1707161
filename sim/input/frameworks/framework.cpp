#include "sim/input/frameworks/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "sim/base/ascii.h"
#include "sim/base/text.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/input/fields/fields.h"
#include "sim/input/fields/plan_fields.h"
#include "sim/input/schema/framework.pb.h"
#include "sim/input/tables/runs_csv.h"
#include "sim/input/text/locate.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// --- problems of a file -----------------------------------------------------------------------

bool has_condition(const v1::Given& given) {
  return given.is_size() + given.starts_size() + given.has_size() > 0 || given.has_min() ||
         given.has_max() || given.has_blank() || given.has_yes();
}

bool is_column(const std::string& name) {
  return is_run_column(name) || name == "nodes" || name.starts_with("extra.");
}

bool is_field(const std::string& name) {
  const Field* field = find_plan_field(name);
  return field != nullptr && field->place && !name.starts_with("architecture.");
}

class Checker {
 public:
  Checker(const Source& source, Diagnostics& problems) : source_(source), problems_(problems) {}

  void run(const v1::Framework& framework) {
    for (const v1::Runs& runs : framework.runs())
      for (const v1::Given& given : runs.when()) {
        check(given);
        if (given.has_field()) add(given, "field", "a run is found by its columns");
      }
    for (const v1::Statement& statement : framework.says()) check(statement);
  }

 private:
  void add(const Message& message, std::string_view field, std::string text) {
    problems_.push_back({source_.where(message, field), std::move(text)});
  }

  void check(const v1::Given& given) {
    if (given.has_column() == given.has_field())
      problems_.push_back({source_.where(given), "a condition names a column or a field"});
    if (given.has_column() && !is_column(given.column()))
      add(given, "column", fmt::format("a table of runs has no column '{}'", given.column()));
    if (given.has_field() && !is_field(given.field()))
      add(given, "field", fmt::format("'{}' is no field of a plan with one value", given.field()));
    if (!has_condition(given))
      problems_.push_back({source_.where(given),
                           "a condition says what is there: is, starts, has, min, max, "
                           "blank or yes"});
  }

  void check(const v1::Statement& statement) {
    for (const v1::Given& given : statement.when()) check(given);
    for (const v1::Given& given : statement.unless()) check(given);
    const bool says = statement.has_plan() || statement.has_quotient() ||
                      statement.cluster_size() > 0 || statement.has_tflops() ||
                      statement.has_refuse() || statement.has_assume();
    if (!says) problems_.push_back({source_.where(statement), "the statement says nothing"});
    for (const char* own : {"name", "model", "cluster", "gpus", "nodes", "framework"}) {
      if (own_has(statement.plan(), own))
        add(statement.plan(), own, fmt::format("'{}' is for a plan to say", own));
    }
    if (statement.has_quotient())
      for (const std::string& name : {statement.quotient().field(), statement.quotient().by()})
        if (!is_field(name))
          add(statement.quotient(), "field", fmt::format("'{}' is no field of a plan", name));
    for (int i = 0; i < statement.cluster_size(); ++i)
      if (!is_cluster_setting(statement.cluster(i)))
        problems_.push_back({source_.where(statement, "cluster", i),
                             fmt::format("'{}' is no setting of a cluster; write for example "
                                         "node.nvlink_sharp=false",
                                         statement.cluster(i))});
    if (statement.has_about() && find_plan_field(statement.about()) == nullptr)
      add(statement, "about", fmt::format("'{}' is no field of a plan", statement.about()));
  }

  static bool own_has(const v1::Plan& plan, const char* name) {
    const auto* field = v1::Plan::descriptor()->FindFieldByName(name);
    return plan.GetReflection()->HasField(plan, field);
  }

  const Source& source_;
  Diagnostics& problems_;
};

Diagnostics read_framework(const std::string& path, v1::Framework& message) {
  Source source(path);
  Diagnostics problems = load(source, message);
  if (problems.empty()) Checker(source, problems).run(message);
  return problems;
}

// --- conditions ------------------------------------------------------------------------------

// The number at the start of a text: 80 of "80GB".
std::optional<double> leading(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

bool says_yes(const std::string& text) {
  const std::optional<double> value = leading(text);
  return contains(text, "true") || (value && *value != 0);
}

template <class Words, class Test>
bool any(const Words& words, Test test) {
  return words.empty() || std::any_of(words.begin(), words.end(), test);
}

bool holds(const v1::Given& given, const std::string& text) {
  const auto equal = [&](const std::string& word) {
    return word.size() == text.size() && starts_with(text, word);
  };
  if (!any(given.is(), equal)) return false;
  if (!any(given.starts(), [&](const std::string& word) { return starts_with(text, word); }))
    return false;
  if (!any(given.has(), [&](const std::string& word) { return contains(text, word); }))
    return false;
  if (given.has_blank() && given.blank() != text.empty()) return false;
  if (given.has_yes() && given.yes() != says_yes(text)) return false;
  if (!given.has_min() && !given.has_max()) return true;
  const std::optional<double> value = leading(text);
  return value && (!given.has_min() || *value >= given.min()) &&
         (!given.has_max() || *value <= given.max());
}

bool holds(const v1::Given& given, const Columns& columns, const program::Plan& plan) {
  if (given.has_field())
    return holds(given, text_of(find_plan_field(given.field())->place.get(plan)));
  return holds(given, columns(given.column()).value_or(""));
}

bool asks_columns(const v1::Statement& statement) {
  const auto of_column = [](const v1::Given& given) { return given.has_column(); };
  return statement.has_quotient() ||
         std::any_of(statement.when().begin(), statement.when().end(), of_column) ||
         std::any_of(statement.unless().begin(), statement.unless().end(), of_column);
}

bool holds(const v1::Statement& statement, const Columns& columns, const program::Plan& plan) {
  if (!columns && asks_columns(statement)) return false;
  const auto true_now = [&](const v1::Given& given) { return holds(given, columns, plan); };
  return std::all_of(statement.when().begin(), statement.when().end(), true_now) &&
         std::none_of(statement.unless().begin(), statement.unless().end(), true_now);
}

// --- filling a plan ---------------------------------------------------------------------------

// Copies the fields of `from` that are not set in `to`.
void fill_missing(const Message& from, Message& to) {
  std::vector<const FieldDescriptor*> fields;
  from.GetReflection()->ListFields(from, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) continue;
    const auto* reflection = to.GetReflection();
    if (!reflection->HasField(to, field)) {
      const std::unique_ptr<Message> one(to.New());
      one->CopyFrom(from);
      for (const FieldDescriptor* other : fields)
        if (other != field) one->GetReflection()->ClearField(one.get(), other);
      to.MergeFrom(*one);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      fill_missing(from.GetReflection()->GetMessage(from, field),
                   *reflection->MutableMessage(&to, field));
    }
  }
}

// True if a field of `from` is not set in `to`.
bool adds(const Message& from, const Message& to) {
  std::vector<const FieldDescriptor*> fields;
  from.GetReflection()->ListFields(from, &fields);
  return std::any_of(fields.begin(), fields.end(), [&](const FieldDescriptor* field) {
    if (!to.GetReflection()->HasField(to, field)) return true;
    return field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
           adds(from.GetReflection()->GetMessage(from, field),
                to.GetReflection()->GetMessage(to, field));
  });
}

bool shards_parameters(const v1::Plan& plan) {
  return plan.data_parallel() == v1::Plan::fsdp1 || plan.data_parallel() == v1::Plan::fsdp2 ||
         plan.zero() >= 2;
}

// Clears defaults that contradict the plan.
void drop_contradicted(const v1::Plan& plan, v1::Plan& defaults) {
  if (!plan.has_architecture()) defaults.clear_architecture();
  if (plan.has_layers_per_virtual_stage()) defaults.clear_virtual_stages();
  drop_splits(plan, defaults);
  const bool kind_said = plan.has_zero() || plan.has_data_parallel();
  const bool shards = kind_said ? shards_parameters(plan) : shards_parameters(defaults);
  if (!shards) defaults.clear_fsdp();
  if (plan.has_zero()) {
    defaults.clear_data_parallel();
    defaults.clear_distributed_optimizer();
    if (defaults.has_fsdp()) defaults.mutable_fsdp()->clear_reshard_after_forward();
  }
  if (!shards || shards_parameters(defaults)) return;
  defaults.clear_distributed_optimizer();
  defaults.clear_overlap_grad_reduce();
  defaults.clear_overlap_param_gather();
  defaults.clear_gradient_accumulation_fusion();
  defaults.clear_attention_mask();
  defaults.clear_check_for_nan();
}

// The fields that a statement sets, including its quotient.
v1::Plan fields_of(const v1::Statement& statement, const Columns& columns,
                   const program::Plan& plan) {
  v1::Plan says = statement.plan();
  if (!statement.has_quotient()) return says;
  const v1::Quotient& quotient = statement.quotient();
  const std::optional<double> value = leading(columns(quotient.column()).value_or(""));
  const double by = leading(text_of(find_plan_field(quotient.by())->place.get(plan))).value_or(0);
  constexpr double most = 1 << 24;
  if (!value || by < 1 || *value < by || *value > most) return says;
  const auto whole = static_cast<std::int64_t>(*value), part = static_cast<std::int64_t>(by);
  const auto* field = v1::Plan::descriptor()->FindFieldByName(quotient.field());
  if (whole % part == 0 && field->cpp_type() == FieldDescriptor::CPPTYPE_INT32)
    says.GetReflection()->SetInt32(&says, field, static_cast<int>(whole / part));
  return says;
}

std::string about(const v1::Statement& statement) {
  if (statement.has_about()) return statement.about();
  std::vector<const FieldDescriptor*> fields;
  statement.plan().GetReflection()->ListFields(statement.plan(), &fields);
  return fields.empty() ? "" : fields.front()->name();
}

// Adds an assumption; a later one replaces an earlier one about the same field.
void assume(std::vector<Assumption>& all, Assumption one) {
  std::erase_if(all, [&](const Assumption& other) { return other.field == one.field; });
  all.push_back(std::move(one));
}

// --- all files of a folder --------------------------------------------------------------------

struct File {
  std::shared_ptr<v1::Framework> message = std::make_shared<v1::Framework>();
  std::string path;
};

Framework framework_of(const std::string& name, const std::map<std::string, File>& files,
                       Diagnostics& problems) {
  const File& own = files.at(name);
  Framework out;
  out.name = name;
  out.line = own.message->line();
  out.source = fmt::format("{}", fmt::join(own.message->source(), "; "));
  out.path = own.path;
  out.also.assign(own.message->also().begin(), own.message->also().end());
  const File* file = &own;
  for (;;) {
    out.files.insert(out.files.begin(), file->message);
    if (out.refused.empty()) out.refused = file->message->refuse();
    if (out.family.empty()) out.family = file->message->family();
    if (!file->message->has_based_on()) break;
    const std::string& base = file->message->based_on();
    const auto found = files.find(base);
    if (found == files.end()) {
      std::vector<std::string> names;
      for (const auto& [one, unused] : files) names.push_back(one);
      problems.push_back({file->path, fmt::format("there is no framework '{}'{}", base,
                                                  did_you_mean(base, names))});
      break;
    }
    if (base == name || std::ranges::count(out.bases, base) > 0) {
      problems.push_back({own.path, fmt::format("'{}' is based on itself", base)});
      break;
    }
    out.bases.push_back(base);
    file = &found->second;
  }
  if (out.family.empty()) out.family = name;
  return out;
}

// The weight of the conditions if all are true; 0 otherwise.
std::size_t said_by(const v1::Runs& runs, const Columns& columns) {
  std::size_t much = 0;
  for (const v1::Given& given : runs.when()) {
    const std::string text = columns(given.column()).value_or("");
    if (!holds(given, text)) return 0;
    constexpr std::size_t of_a_condition = 1000;
    much += of_a_condition;
    for (const auto* words : {&given.is(), &given.starts(), &given.has()})
      for (const std::string& word : *words)
        if (contains(text, word)) much += word.size();
  }
  return much;
}

std::string given_text(const v1::Given& given) {
  std::string text = given.has_field() ? given.field() : "column " + given.column();
  const auto words = [&](const char* verb, const auto& all) {
    if (!all.empty()) text += fmt::format(" {} {}", verb, fmt::join(all, " or "));
  };
  words("is", given.is());
  words("starts with", given.starts());
  words("has", given.has());
  if (given.has_min()) text += fmt::format(" from {}", shortest(given.min()));
  if (given.has_max()) text += fmt::format(" up to {}", shortest(given.max()));
  if (given.has_blank()) text += given.blank() ? " is blank" : " is not blank";
  if (given.has_yes()) text += given.yes() ? " is true" : " is not true";
  return text;
}

}  // namespace

Diagnostics framework_problems(const std::string& path) {
  v1::Framework message;
  return read_framework(path, message);
}

Result<std::vector<Framework>> load_frameworks(const std::string& folder) {
  std::map<std::string, File> files;
  Diagnostics problems;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != ".textproto") continue;
    File file;
    file.path = it->path().string();
    const Diagnostics own = read_framework(file.path, *file.message);
    problems.insert(problems.end(), own.begin(), own.end());
    files.emplace(it->path().stem().string(), std::move(file));
  }
  std::sort(problems.begin(), problems.end(),
            [](const Diagnostic& a, const Diagnostic& b) { return a.where < b.where; });
  std::vector<Framework> all;
  std::map<std::string, std::string> taken;
  for (const auto& [name, file] : files) {
    all.push_back(framework_of(name, files, problems));
    std::vector<std::string> names = all.back().also;
    names.push_back(name);
    for (const std::string& one : names)
      if (const auto [other, added] = taken.emplace(one, name); !added)
        problems.push_back(
            {file.path, fmt::format("'{}' is a name of '{}' too", one, other->second)});
  }
  if (!problems.empty()) return problems;
  return all;
}

const Result<std::vector<Framework>>& frameworks() {
  static const Result<std::vector<Framework>> all =
      load_frameworks(repository_root() + "/workloads/frameworks");
  return all;
}

const Framework* find_framework(std::string_view name) {
  for (const Framework& framework : *frameworks())
    if (framework.name == name || std::ranges::count(framework.also, name) > 0) return &framework;
  return nullptr;
}

std::string unknown_framework(std::string_view name) {
  return fmt::format("there is no framework '{}'{}; `rehearse list frameworks` has all",
                     name.substr(0, 80), did_you_mean(name.substr(0, 80), framework_names()));
}

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const Framework& framework : *frameworks()) {
    names.push_back(framework.name);
    names.insert(names.end(), framework.also.begin(), framework.also.end());
  }
  return names;
}

const Framework* framework_of_run(const Columns& columns) {
  const Framework* best = nullptr;
  std::size_t most = 0;
  for (const Framework& framework : *frameworks()) {
    for (const v1::Runs& runs : framework.files.back()->runs()) {
      const std::size_t much = said_by(runs, columns);
      if (much <= most) continue;
      most = much;
      best = &framework;
    }
  }
  return best;
}

std::vector<std::string> statements_text(const Framework& framework) {
  std::vector<std::string> all;
  for (const auto& file : framework.files) {
    for (const v1::Statement& statement : file->says()) {
      std::vector<std::string> parts, when;
      if (statement.has_plan()) parts.push_back(statement.plan().ShortDebugString());
      if (statement.has_quotient())
        parts.push_back(fmt::format("{}: column {} / {}", statement.quotient().field(),
                                    statement.quotient().column(), statement.quotient().by()));
      parts.insert(parts.end(), statement.cluster().begin(), statement.cluster().end());
      if (statement.has_tflops()) parts.push_back("FLOPs by " + statement.tflops());
      if (statement.has_refuse()) parts.push_back("refused: " + statement.refuse());
      if (parts.empty()) parts.push_back(statement.assume());
      for (const v1::Given& given : statement.when()) when.push_back(given_text(given));
      for (const v1::Given& given : statement.unless())
        when.push_back("not (" + given_text(given) + ")");
      all.push_back(fmt::format("{}{}{} [{}]", fmt::join(parts, ", "),
                                when.empty() ? "" : ", where ", fmt::join(when, " and "),
                                fmt::join(statement.source(), "; ")));
    }
  }
  return all;
}

Completion complete(const Framework& framework, v1::Plan& plan, const Columns& columns) {
  Completion out;
  v1::Plan defaults;
  program::Plan now;  // plan with the statements so far
  copy_fields(plan, now);
  for (const auto& file : framework.files) {
    for (const v1::Statement& statement : file->says()) {
      if (!holds(statement, columns, now)) continue;
      const v1::Plan says = fields_of(statement, columns, now);
      if (statement.overrides()) plan.MergeFrom(says);
      const bool counts = statement.overrides() || !statement.has_plan() || adds(says, plan);
      if (counts && statement.has_assume())
        assume(out.assumptions, {about(statement), statement.assume()});
      defaults.MergeFrom(says);
      copy_fields(says, now);
      copy_fields(plan, now);
      for (const std::string& setting : statement.cluster()) out.cluster.push_back(setting);
      if (statement.has_tflops()) out.tflops = statement.tflops();
      if (out.refused.empty()) out.refused = statement.refuse();
    }
  }
  drop_contradicted(plan, defaults);
  fill_missing(defaults, plan);
  return out;
}

}  // namespace sim::input
