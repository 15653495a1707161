#include "sim/input/text/kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "sim/base/ascii.h"
#include "sim/input/schema/plan.pb.h"

namespace sim::input {

namespace {

// Names of the outermost fields of a text-format file: letters before the first colon or brace of a
// line, outside of braces, strings and comments.
std::set<std::string> outer_fields(std::string_view text) {
  std::set<std::string> names;
  std::string word;
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote || c == '\n') quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (depth == 0 && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_')) {
      word += c;
    } else {
      if (depth == 0 && (c == ':' || c == '{') && !word.empty()) names.insert(word);
      if (c != ' ') word.clear();
      if (c == '{') ++depth;
      if (c == '}') --depth;
    }
  }
  return names;
}

// The number of `names` that are fields of a message.
std::size_t fields_of(const google::protobuf::Descriptor& message,
                      const std::set<std::string>& names) {
  return static_cast<std::size_t>(std::ranges::count_if(
      names, [&](const std::string& name) { return message.FindFieldByName(name) != nullptr; }));
}

std::string kind_of_fields(const std::set<std::string>& names) {
  const auto has = [&](const char* name) { return names.count(name) > 0; };
  if (has("fabric") || has("node") || has("gpu")) return "cluster";
  if (has("provenance") || has("gemm") || has("communication")) return "profile";
  if (has("bases") || has("families")) return "grid";
  if (has("length")) return "campaign";
  if (has("objective") || (has("batch") && has("model"))) return "search";
  if (has("kind") || has("watched")) return "failures";
  if (has("rates") && has("ratio")) return "codec";
  if (has("sign") || has("preset") || (has("line") && has("key"))) return "launcher";
  if (has("type") && (has("field") || has("refuse") || has("based_on"))) return "family";
  if (has("says") || has("based_on") || (has("line") && has("source"))) return "framework";
  if (has("tokenizer")) return "tokenizers";
  if (has("network")) return "model-names";
  if (has("groups")) return "residuals";
  if (has("variant")) return "variants";
  return "plan";
}

// The kind of file that a message of this name represents.
std::string kind_of_message(const std::string& name) {
  if (name == "FailureTable") return "failures";
  if (name == "RunResiduals") return "residuals";
  if (name == "Whatif") return "variants";
  if (name == "ModelFamily") return "family";
  if (name == "ModelNames") return "model-names";
  return lower(name);
}

}  // namespace

std::string kind_of_text(std::string_view text) {
  return kind_of_fields(outer_fields(text));
}

std::string kind_problem(std::string_view text, const google::protobuf::Descriptor& read_as) {
  const std::set<std::string> names = outer_fields(text);
  const std::string kind = kind_of_fields(names), wanted = kind_of_message(read_as.name());
  if (kind == wanted) return "";
  // A file without fields of another kind is called a plan, which proves nothing.
  const std::size_t of_plan = fields_of(*rehearse::v1::Plan::descriptor(), names);
  if (kind == "plan" && (fields_of(read_as, names) >= of_plan || 2 * of_plan <= names.size()))
    return "";
  const char* instead = kind == "grid"       ? "; `rehearse sweep` runs it"
                        : kind == "campaign" ? "; `rehearse campaign` runs it"
                        : kind == "search"   ? "; `rehearse plan` runs it"
                        : kind == "variants" ? "; `rehearse whatif --variants FILE` runs them"
                        : kind == "cluster"  ? "; a plan names it: cluster=FILE"
                        : kind == "plan"     ? "; `rehearse run` runs it"
                                             : "";
  return fmt::format("{} {}, not {}{}{}", kind.back() == 's' ? "holds" : "is a", kind,
                     wanted.back() == 's' ? "" : "a ", wanted, instead);
}

}  // namespace sim::input
