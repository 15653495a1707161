#include "sim/input/text/textproto.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include "sim/input/text/kinds.h"
#include "sim/input/text/reader.h"
#include "sim/input/text/rules.h"

namespace sim::input {
namespace {

// The place of the first byte that is not UTF-8; "" if there is none.
std::string bad_byte(const std::string& path, const std::string& text) {
  if (is_utf8(text)) return "";
  int line = 1;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (!is_utf8(std::string_view(text).substr(start, end - start))) break;
    ++line;
    start = end + 1;
  }
  return fmt::format("{}:{}", path, line);
}

}  // namespace

std::size_t Source::Hash::operator()(const Key& key) const {
  const auto message = reinterpret_cast<std::uintptr_t>(key.message);
  const auto field =
      (static_cast<std::uint64_t>(key.field) << 32) + static_cast<unsigned>(key.index);
  return (message ^ field) * 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
}

std::string Source::position_text(const FieldPosition& place) const {
  return place.line > 0 ? fmt::format("{}:{}:{}", path_, place.line, place.column) : place.said;
}

std::string Source::where(const google::protobuf::Message& message) const {
  const auto found = places_.find({&message, 0, 0});
  return found == places_.end() ? path_ : position_text(found->second);
}

std::string Source::where(const google::protobuf::Message& message, std::string_view field,
                          int index) const {
  const auto* descriptor = message.GetDescriptor()->FindFieldByName(std::string(field));
  assert(descriptor);
  const auto found = places_.find({&message, descriptor->number(), index});
  return found == places_.end() ? where(message) : position_text(found->second);
}

bool Source::has(const google::protobuf::Message& message, std::string_view field) const {
  const auto* descriptor = message.GetDescriptor()->FindFieldByName(std::string(field));
  assert(descriptor);
  return places_.contains({&message, descriptor->number(), 0});
}

void Source::place(const google::protobuf::Message& message, std::string_view field,
                   std::string where, int index) {
  const auto* descriptor = message.GetDescriptor()->FindFieldByName(std::string(field));
  assert(descriptor);
  places_[{&message, descriptor->number(), index}] = {0, 0, std::move(where)};
}

Diagnostics Source::read(const std::string& text, google::protobuf::Message& message,
                         std::span<const Synonym> synonyms, bool check) {
  if (const std::string place = bad_byte(path_, text); !place.empty())
    return {{place, "the file is not UTF-8 text"}};
  Diagnostics problems = Reader(*this, text, synonyms).run(message);
  if (!check || problems.size() >= max_problems) return problems;
  // After an error, do not report missing fields: a misspelt field would be reported twice.
  for (Diagnostic& rule : this->check(message, problems.empty()))
    problems.push_back(std::move(rule));
  return problems;
}

Diagnostics Source::read_whole(const std::string& text, google::protobuf::Message& message,
                               std::span<const Synonym> synonyms, bool check) {
  Diagnostics problems = read(text, message, synonyms, check);
  if (problems.empty()) return problems;
  std::string other = kind_problem(text, *message.GetDescriptor());
  return other.empty() ? problems : Diagnostics{{path_, std::move(other)}};
}

Diagnostics Source::read_json(const std::string& text, google::protobuf::Message& message) {
  const auto status = google::protobuf::util::JsonStringToMessage(text, &message);
  if (status.ok()) return {};
  return {{path_, fmt::format("not JSON of '{}': {}", message.GetDescriptor()->name(),
                              std::string(status.message()))}};
}

Diagnostics load(Source& source, google::protobuf::Message& message,
                 std::span<const Synonym> synonyms, bool check) {
  const Result<std::string> text = read_file(source.path());
  if (!text) return text.errors();
  if (!source.path().ends_with(".json")) return source.read_whole(*text, message, synonyms, check);
  Diagnostics problems = source.read_json(*text, message);
  if (problems.empty() && check) problems = source.check(message);
  return problems;
}

}  // namespace sim::input
