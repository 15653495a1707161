#include "sim/input/profile/profile_draft.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <cassert>
#include <charconv>
#include <cmath>
#include <sstream>

#include "sim/input/profile/profile.h"
#include "sim/input/profile/profile_fields.h"
#include "sim/input/text/rules.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

namespace v1 = rehearse::v1;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct ProfileDraft::State {
  v1::Profile message;
};

namespace {

// One step of a path: a field and its element (-1: no brackets, -2: all elements).
struct PathStep {
  std::string field;
  int index = -1;
};

std::vector<PathStep> steps(const std::string& path) {
  std::vector<PathStep> all;
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, '.');) {
    PathStep step;
    const std::size_t bracket = part.find('[');
    step.field = part.substr(0, bracket);
    if (bracket != std::string::npos) {
      step.index = -2;
      if (part[bracket + 1] != '*')
        std::from_chars(part.data() + bracket + 1, part.data() + part.size(), step.index);
    }
    all.push_back(step);
  }
  return all;
}

void expand(const Message& message, const std::vector<PathStep>& path, std::size_t at,
            const std::string& so_far, std::vector<std::string>& out) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(path[at].field);
  if (!field) return;
  const auto* reflection = message.GetReflection();
  const bool last = at + 1 == path.size();
  const std::string here = (so_far.empty() ? "" : so_far + ".") + path[at].field;
  if (!field->is_repeated()) {
    if (path[at].index != -1 || !reflection->HasField(message, field)) return;
    if (last) {
      if (!field->message_type()) out.push_back(here);
    } else if (field->message_type()) {
      expand(reflection->GetMessage(message, field), path, at + 1, here, out);
    }
    return;
  }
  const int size = reflection->FieldSize(message, field);
  const int wanted = path[at].index;
  if (wanted == -1 || !field->message_type() || last) return;
  for (int i = wanted == -2 ? 0 : wanted; i < (wanted == -2 ? size : std::min(size, wanted + 1));
       ++i) {
    expand(reflection->GetRepeatedMessage(message, field, i), path, at + 1,
           fmt::format("{}[{}]", here, i), out);
  }
}

// The message that holds the last field of a path.
Message& holder(Message& root, const std::vector<PathStep>& path) {
  Message* at = &root;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    const FieldDescriptor* field = at->GetDescriptor()->FindFieldByName(path[i].field);
    assert(field);
    const auto* reflection = at->GetReflection();
    at = path[i].index >= 0 ? reflection->MutableRepeatedMessage(at, field, path[i].index)
                            : reflection->MutableMessage(at, field);
  }
  return *at;
}

double four_digits(double value) {
  return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
}

}  // namespace

ProfileDraft::ProfileDraft(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProfileDraft::~ProfileDraft() = default;
ProfileDraft::ProfileDraft(const ProfileDraft& other)
    : state_(std::make_unique<State>(*other.state_)) {}
ProfileDraft& ProfileDraft::operator=(const ProfileDraft& other) {
  *state_ = *other.state_;
  return *this;
}

Result<ProfileDraft> ProfileDraft::load(const std::string& path) {
  const Result<ProfileFile> checked = load_profile(path);  // checks all rules
  if (!checked) return checked.errors();
  auto state = std::make_unique<State>();
  Source source(path);
  Diagnostics problems = sim::input::load(source, state->message);
  if (!problems.empty()) return problems;
  return ProfileDraft(std::move(state));
}

std::vector<std::string> ProfileDraft::paths(const std::string& pattern) const {
  std::vector<std::string> out;
  expand(state_->message, steps(pattern), 0, "", out);
  return out;
}

std::string ProfileDraft::element(const std::string& path) const {
  const std::vector<PathStep> way = steps(path);
  if (way.size() < 2 || way[way.size() - 2].index < 0) return "";
  const Message& message = holder(state_->message, way);
  const auto* descriptor = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  std::string text;
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (field->name() == way.back().field || field->is_repeated()) continue;
    std::string one;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM)
      one = reflection->GetEnum(message, field)->name();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64)
      one = fmt::format("{}", reflection->GetInt64(message, field));
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING)
      one = reflection->GetString(message, field);
    if (!one.empty()) text += (text.empty() ? "" : "x") + one;
  }
  return text;
}

double ProfileDraft::get(const std::string& path) const {
  const std::vector<PathStep> way = steps(path);
  const Message& message = holder(state_->message, way);
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(way.back().field);
  assert(field);
  const auto* reflection = message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    const std::string text = reflection->GetString(message, field);
    if (rule_of(*field).unit() == v1::duration) return seconds(to_duration(text));
    assert(rule_of(*field).unit() == v1::bytes);
    return static_cast<double>(to_bytes(text).n);
  }
  assert(field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE);
  return reflection->GetDouble(message, field);
}

void ProfileDraft::set(const std::string& path, double value) {
  const std::vector<PathStep> way = steps(path);
  Message& message = holder(state_->message, way);
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(way.back().field);
  assert(field);
  const auto* reflection = message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    const bool is_time = rule_of(*field).unit() == v1::duration;
    assert(is_time || rule_of(*field).unit() == v1::bytes);
    reflection->SetString(&message, field,
                          is_time ? fmt::format("{}us", four_digits(value * 1e6))
                                  : fmt::format("{:.0f}B", four_digits(value)));
    return;
  }
  assert(field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE);
  reflection->SetDouble(&message, field, four_digits(value));
}

void ProfileDraft::take_communication(const ProfileDraft& other) {
  *state_->message.mutable_communication() = other.state_->message.communication();
}

device::Profile ProfileDraft::device() const {
  return device_profile(state_->message);
}

bool ProfileDraft::has_communication() const {
  return state_->message.has_communication();
}

network::CommunicationProfile ProfileDraft::communication() const {
  return communication_profile(state_->message.communication());
}

void ProfileDraft::name(const std::string& name) {
  state_->message.set_name(name);
}

void ProfileDraft::provenance(const device::Provenance& provenance,
                              const std::vector<std::string>& sources) {
  v1::Provenance& to = *state_->message.mutable_provenance();
  to.Clear();
  to.set_device(provenance.device);
  for (const std::string& source : sources) to.add_source(source);
  to.set_date(provenance.date);
  to.set_command(provenance.command);
  for (const device::Residual& residual : provenance.residuals) {
    v1::Residual& one = *to.add_residuals();
    one.set_group(residual.group);
    one.set_source(residual.source);
    one.set_samples(residual.samples);
    one.set_mean_absolute_percent(four_digits(residual.mean_absolute_percent));
    one.set_bias_percent(four_digits(residual.bias_percent));
  }
  if (!provenance.base.empty()) to.set_base(provenance.base);
  for (const double residual : provenance.run_residuals)
    to.add_run_residuals(four_digits(residual));
  for (const double residual : provenance.reserved_residuals)
    to.add_reserved_residuals(four_digits(residual));
  for (const double residual : provenance.allocated_residuals)
    to.add_allocated_residuals(four_digits(residual));
  for (const std::string& row : provenance.fitted_rows) to.add_fitted_rows(row);
}

std::string ProfileDraft::communication_source() const {
  return state_->message.communication().source();
}

void ProfileDraft::communication_source(const std::string& source) {
  state_->message.mutable_communication()->set_source(source);
}

std::string ProfileDraft::text(const std::string& header) const {
  std::string text;
  std::istringstream lines(header);
  for (std::string line; std::getline(lines, line);) text += "# " + line + "\n";
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.SetUseUtf8StringEscaping(true);
  std::string body;
  const bool printed = printer.PrintToString(state_->message, &body);
  assert(printed);
  return text + body;
}

}  // namespace sim::input
