#include "sim/input/frameworks/framework.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <ranges>

#include "sim/base/ascii.h"
#include "sim/base/text.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/input/fields/fields.h"
#include "sim/input/fields/plan_fields.h"
#include "sim/input/schema/framework.pb.h"
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

// True for a field that a condition may ask for: one value, not a part of the network.
bool is_field(const std::string& name) {
  if (find_plan_field(name) == nullptr || name.starts_with("architecture.")) return false;
  const FieldDescriptor* field = v1::Plan::descriptor()->FindFieldByName(name);
  return name.find('.') != name.npos ||
         (field != nullptr && !field->is_repeated() && field->message_type() == nullptr);
}

class Checker {
 public:
  Checker(const Source& source, Diagnostics& problems) : source_(source), problems_(problems) {}

  void run(const v1::Framework& framework) {
    for (const v1::Statement& statement : framework.says()) check(statement);
    for (int i = 0; i < framework.search_size(); ++i) {
      const std::string& one = framework.search(i);
      if (!one.ends_with("=true") || find_plan_field(one.substr(0, one.find('='))) == nullptr)
        problems_.push_back(
            {source_.where(framework, "search", i),
             fmt::format("'{}' turns on no switch of a plan; write for example "
                         "overlap_grad_reduce=true",
                         one)});
    }
  }

 private:
  void add(const Message& message, std::string_view field, std::string text) {
    problems_.push_back({source_.where(message, field), std::move(text)});
  }

  void check(const v1::Given& given) {
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
    const bool says = statement.has_plan() || statement.cluster_size() > 0 ||
                      statement.has_refuse() || statement.has_assume();
    if (!says) problems_.push_back({source_.where(statement), "the statement says nothing"});
    for (const char* own : {"name", "model", "cluster", "gpus", "nodes", "framework",
                            "architecture", "framework_version", "cluster_settings"}) {
      if (own_has(statement.plan(), own))
        add(statement.plan(), own, fmt::format("'{}' is for a plan to say", own));
    }
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
    if (field->is_repeated()) return plan.GetReflection()->FieldSize(plan, field) > 0;
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

// The plan so far: what it states and what the statements added.
struct Now {
  v1::Plan message;
  program::Plan plan;

  void add(const v1::Plan& more) {
    message.MergeFrom(more);
    copy_fields(more, plan);
    if (more.has_zero()) plan.sharding.distributed_optimizer = more.zero() == 1;
    if (more.zero() >= 2) plan.sharding.data_parallel = program::DataParallelism::fsdp2;
  }
  // The text of a field; "" if it has no value.
  std::string text(const std::string& name) const {
    if (const Field* field = find_plan_field(name); field->place)
      return text_of(field->place.get(plan));
    const auto* field = v1::Plan::descriptor()->FindFieldByName(name);
    if (field == nullptr || !message.GetReflection()->HasField(message, field)) return "";
    std::string text;
    google::protobuf::TextFormat::PrintFieldValueToString(message, field, -1, &text);
    const bool quoted = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    return quoted ? text.substr(1, text.size() - 2) : text;
  }
};

bool holds(const v1::Statement& statement, const Now& now) {
  const auto true_now = [&](const v1::Given& given) {
    return holds(given, now.text(given.field()));
  };
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
    out.search.insert(out.search.end(), file->message->search().begin(),
                      file->message->search().end());
    out.one_layer_chunks = out.one_layer_chunks || file->message->one_layer_chunks();
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

// Length of the match of a spelling; 0 if the name or every version differs.
std::size_t match_of(const v1::Called& called, std::string_view name, std::string_view version) {
  if (!starts_with(name, called.name())) return 0;
  if (called.version().empty()) return called.name().size();
  std::size_t longest = 0;
  for (const std::string& one : called.version())
    if (contains(version, one)) longest = std::max(longest, one.size());
  constexpr std::size_t of_a_version = 1000;
  return longest == 0 ? 0 : of_a_version + called.name().size() + longest;
}

std::string given_text(const v1::Given& given) {
  std::string text = given.field();
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
  for (const std::filesystem::path& path : files_in(folder)) {
    File file;
    file.path = path.string();
    const Diagnostics own = read_framework(file.path, *file.message);
    problems.insert(problems.end(), own.begin(), own.end());
    files.emplace(path.stem().string(), std::move(file));
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
  const std::string plain = lower(name);
  for (const Framework& framework : *frameworks())
    if (framework.name == plain || std::ranges::count(framework.also, plain) > 0) return &framework;
  return nullptr;
}

std::string unknown_framework(std::string_view name) {
  constexpr std::size_t least_asked = 3, most_shown = 3;
  const std::string given(name.substr(0, 80)), plain = lower(given);
  std::vector<std::string> mention;  // frameworks whose line has the name
  for (const Framework& framework : *frameworks())
    if (plain.size() >= least_asked && lower(framework.line).find(plain) != std::string::npos)
      mention.push_back(fmt::format("'{}' ({})", framework.name, framework.line));
  const std::string near = mention.empty() || mention.size() > most_shown
                               ? did_you_mean(plain, framework_names())
                               : fmt::format("; did you mean {}?", listed(mention, "or"));
  return fmt::format("there is no framework '{}'{}; `rehearse list frameworks` has all", given,
                     near);
}

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const Framework& framework : *frameworks()) {
    names.push_back(framework.name);
    names.insert(names.end(), framework.also.begin(), framework.also.end());
  }
  return names;
}

const Framework* framework_called(std::string_view name, std::string_view version) {
  const Framework* best = nullptr;
  std::size_t longest = 0;
  for (const Framework& framework : *frameworks()) {
    for (const v1::Called& called : framework.files.back()->called()) {
      const std::size_t length = match_of(called, name, version);
      if (length <= longest) continue;
      longest = length;
      best = &framework;
    }
  }
  return best;
}

std::string log_convention(const Framework& framework, std::string_view version) {
  for (auto file = framework.files.rbegin(); file != framework.files.rend(); ++file)
    for (const v1::Log& log : (*file)->log()) {
      const auto occurs = [&](const std::string& one) { return contains(version, one); };
      if (log.version().empty() || std::ranges::any_of(log.version(), occurs))
        return log.convention();
    }
  return "";
}

std::vector<std::string> statements_text(const Framework& framework) {
  std::vector<std::string> all;
  for (const auto& file : framework.files) {
    for (const v1::Statement& statement : file->says()) {
      std::vector<std::string> parts, when;
      if (statement.has_plan()) parts.push_back(statement.plan().ShortDebugString());
      parts.insert(parts.end(), statement.cluster().begin(), statement.cluster().end());
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

namespace {

// The version in a framework's name: 0.12 of "megatron-core-0.12"; "" if it has none.
std::string version_in(const std::string& name) {
  const std::size_t dash = name.rfind('-');
  const std::string last = dash == name.npos ? "" : name.substr(dash + 1);
  return leading(last) ? last : "";
}

}  // namespace

Completion complete(const Framework& framework, v1::Plan& plan) {
  Completion out;
  v1::Plan defaults;
  Now now;
  now.add(plan);
  if (!plan.has_framework_version())
    now.message.set_framework_version(version_in(plan.framework()));
  for (const auto& file : framework.files) {
    for (const v1::Statement& statement : file->says()) {
      if (!holds(statement, now)) continue;
      const v1::Plan& says = statement.plan();
      const bool counts = !statement.has_plan() || adds(says, plan);
      if (counts && statement.has_assume())
        assume(out.assumptions, {about(statement), statement.assume()});
      defaults.MergeFrom(says);
      now.add(says);
      now.add(plan);
      for (const std::string& setting : statement.cluster()) out.cluster.push_back(setting);
      if (out.refused.empty()) out.refused = statement.refuse();
    }
  }
  drop_contradicted(plan, defaults);
  fill_missing(defaults, plan);
  return out;
}

}  // namespace sim::input
