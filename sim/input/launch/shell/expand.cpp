#include "sim/input/launch/shell/expand.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "sim/base/ascii.h"
#include "sim/input/launch/shell/arithmetic.h"

namespace sim::shell {
namespace {

constexpr int max_depth = 24;
// Above this size, ${X%pattern} and related forms keep the value, because they try every cut.
constexpr std::size_t max_cut = 4096;

bool splits(char c) {
  return is_blank(c) || c == '\n';
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::size_t number(std::string_view digits) {
  std::size_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

}  // namespace

struct Expander::Sink {
  bool split = false;
  std::int64_t* budget = nullptr;
  std::vector<Text> fields = {};
  Text current = {};
  bool open = false;
  bool vanished = false;  // "${A[@]}" without elements was expanded

  void put(char c, std::size_t at) {
    open = true;
    if (--*budget > 0) current.put(c, at);
  }
  void finish() {
    if (open) fields.push_back(std::move(current));
    current = {};
    open = false;
  }
  void put(const Text& text, bool quoted) {
    if (quoted) open = true;
    for (std::size_t i = 0; i < text.bytes.size(); ++i) {
      if (split && !quoted && splits(text.bytes[i]))
        finish();
      else
        put(text.bytes[i], text.at[i]);
    }
  }
  // Expands the elements of an array, each to a word.
  void put(const std::vector<Text>& elements, bool quoted, std::size_t at) {
    vanished = vanished || elements.empty();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (i > 0 && split) finish();
      if (i > 0 && !split) put(' ', at);
      put(elements[i], quoted);
    }
  }
};

std::size_t Expander::place(std::size_t at) const {
  if (!places_) return at;
  return places_->empty() ? 0 : (*places_)[std::min(at, places_->size() - 1)];
}

std::vector<Text> Expander::fields(const Raw& word) {
  Sink sink{true, &budget_};
  walk(word.text, word.at, Quoting::none, sink);
  sink.finish();
  return std::move(sink.fields);
}

std::vector<Text> Expander::fields(const std::vector<Raw>& words) {
  std::vector<Text> all;
  for (const Raw& word : words)
    for (Text& field : fields(word)) all.push_back(std::move(field));
  return all;
}

Text Expander::single(const Raw& word) {
  Sink sink{false, &budget_};
  walk(word.text, word.at, Quoting::none, sink);
  return std::move(sink.current);
}

Text Expander::document(const Raw& body) {
  Sink sink{false, &budget_};
  walk(body.text, body.at, Quoting::document, sink);
  return std::move(sink.current);
}

void Expander::walk(std::string_view text, std::size_t at, Quoting quoting, Sink& sink) {
  if (++depth_ > max_depth) {
    --depth_;
    return;
  }
  const bool quoted = quoting != Quoting::none;
  for (std::size_t i = 0; i < text.size() && budget_ > 0;) {
    const char c = text[i];
    const std::size_t end = skip_quoted(text, i);
    if (c == '\\') {
      // In quotes, a backslash escapes only characters with a special meaning there.
      const char next = i + 1 < text.size() ? text[i + 1] : '\n';
      const bool escapes = !quoted || next == '$' || next == '`' || next == '"' || next == '\\' ||
                           next == '\n' || next == '\r';
      if (!escapes) sink.put(c, place(at + i));
      if (next == '\r' && i + 2 < text.size() && text[i + 2] == '\n') {
        i += 3;
        continue;
      }
      if (next != '\n') sink.put(next, place(at + i + 1));
      i += 2;
    } else if (c == '\'' && !quoted) {
      sink.open = true;
      for (std::size_t k = i + 1; k + 1 < end; ++k) sink.put(text[k], place(at + k));
      i = end;
    } else if (c == '"' && quoting == Quoting::none) {
      const bool open = std::exchange(sink.open, true);
      const std::size_t size = sink.current.bytes.size(), fields = sink.fields.size();
      sink.vanished = false;
      walk(text.substr(i + 1, end - i >= 2 ? end - i - 2 : 0), at + i + 1, Quoting::text, sink);
      const bool nothing = sink.current.bytes.size() == size && sink.fields.size() == fields;
      if (sink.vanished && nothing) sink.open = open;  // gives no word, not even an empty one
      i = end;
    } else if (c == '`') {
      substitution(text.substr(i + 1, end - i >= 2 ? end - i - 2 : 0), at + i + 1, quoted, sink);
      i = end;
    } else if (c == '$') {
      i = dollar(text, i, at, quoted, sink);
    } else {
      sink.put(c, place(at + i));
      ++i;
    }
  }
  --depth_;
}

// Expands at text[i] = '$'; returns the index after it.
std::size_t Expander::dollar(std::string_view text, std::size_t i, std::size_t at, bool quoted,
                             Sink& sink) {
  const std::string_view rest = text.substr(i);
  const std::size_t end = skip_quoted(text, i);
  const std::size_t here = place(at + i);
  if (rest.starts_with("$((") && text.substr(0, end).ends_with("))")) {
    sink.put(sum(text.substr(i + 3, end - i - 5), at + i + 3), quoted);
    return end;
  }
  if (rest.starts_with("$(")) {
    substitution(text.substr(i + 2, end - i >= 3 ? end - i - 3 : 0), at + i + 2, quoted, sink);
    return end;
  }
  if (rest.starts_with("${")) {
    parameter(text.substr(i + 2, end - i >= 3 ? end - i - 3 : 0), at + i + 2, quoted, sink);
    return end;
  }
  if (rest.starts_with("$'")) {
    for (std::size_t k = i + 2; k + 1 < end; ++k) sink.put(text[k], place(at + k));
    return end;
  }
  std::size_t stop = i + 1;
  if (stop < text.size() && is_name_start(text[stop])) {
    while (stop < text.size() && is_name(text[stop])) ++stop;
  } else if (stop < text.size() &&
             std::string_view("0123456789@*#?$!-").find(text[stop]) != std::string_view::npos) {
    ++stop;
  } else {
    sink.put('$', here);
    return i + 1;
  }
  value(text.substr(i + 1, stop - i - 1), "", at + i, quoted, sink);
  return stop;
}

// The values of a parameter; false if it is not set.
bool Expander::known(std::string_view name, std::string_view index, std::vector<Text>& values) {
  if (name == "@" || name == "*") {
    values = environment_.arguments;
    return true;
  }
  if (name == "#") {
    Text count;
    count.put(std::to_string(environment_.arguments.size()), 0);
    values = {count};
    return true;
  }
  if (name == "?") {
    Text zero;
    zero.put('0', 0);
    values = {zero};
    return true;
  }
  if (is_digits(name)) {
    const std::size_t n = number(name);
    if (n == 0 || n > environment_.arguments.size()) return false;
    values = {environment_.arguments[n - 1]};
    return true;
  }
  const Variable* variable = environment_.find(name);
  if (!variable) return false;
  if (index == "@" || index == "*") {
    values = variable->elements;
    return true;
  }
  std::size_t position = 0;
  if (!index.empty()) {
    bool unsure = false;
    const auto value = environment_.tested(sum(index, 0), unsure);
    if (!value || !is_digits(*value)) return false;
    position = number(*value);
  }
  if (position >= variable->elements.size()) return variable->array && index.empty();
  values = {variable->elements[position]};
  return true;
}

void Expander::value(std::string_view name, std::string_view index, std::size_t at, bool quoted,
                     Sink& sink) {
  std::vector<Text> values;
  if (!known(name, index, values)) {
    sink.put(environment_.unknown("$" + std::string(name), true, place(at)), quoted);
    return;
  }
  const bool all = index == "@" || name == "@" || ((index == "*" || name == "*") && !quoted);
  if (all) {
    sink.put(values, quoted, place(at));
    return;
  }
  Text joined;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) joined.put(' ', place(at));
    joined.put(values[i]);
  }
  sink.put(joined, quoted);
}

Text Expander::argument(std::string_view word, std::size_t at) {
  Sink sink{false, &budget_};
  walk(word, at, Quoting::none, sink);
  return std::move(sink.current);
}

namespace {

// The parts of the text between ${ and }.
struct Parameter {
  bool length = false;  // ${#X}
  std::string_view name, index, operation;
  std::size_t operation_at = 0;
};

Parameter read_parameter(std::string_view inside) {
  Parameter p;
  p.length = inside.size() > 1 && inside.front() == '#' &&
             (is_name(inside[1]) || inside[1] == '@' || inside[1] == '*');
  std::size_t i = p.length ? 1 : 0;
  const std::size_t start = i;
  if (i < inside.size() && is_name_start(inside[i])) {
    while (i < inside.size() && is_name(inside[i])) ++i;
  } else if (i < inside.size() && is_digits(inside.substr(i, 1))) {
    while (i < inside.size() && is_digits(inside.substr(i, 1))) ++i;
  } else if (i < inside.size()) {
    ++i;
  }
  p.name = inside.substr(start, i - start);
  if (i < inside.size() && inside[i] == '[') {
    const std::size_t close = std::min(inside.find(']', i), inside.size());
    p.index = inside.substr(i + 1, close - i - 1);
    i = std::min(close + 1, inside.size());
  }
  p.operation = inside.substr(i);
  p.operation_at = i;
  return p;
}

}  // namespace

void Expander::count(std::string_view inside, std::size_t at, bool quoted, Sink& sink) {
  const Parameter p = read_parameter(inside);
  std::vector<Text> values;
  const bool set = known(p.name, p.index, values);
  const bool elements = p.index == "@" || p.index == "*" || p.name == "@" || p.name == "*";
  Text text;
  if (!set || (!elements && !values.empty() && values.front().unknown())) {
    text = environment_.unknown("${" + std::string(inside) + "}", true, place(at));
  } else {
    const std::size_t size = elements         ? values.size()
                             : values.empty() ? 0
                                              : values.front().bytes.size();
    text.put(std::to_string(size), place(at));
  }
  sink.put(text, quoted);
}

void Expander::parameter(std::string_view inside, std::size_t at, bool quoted, Sink& sink) {
  const Parameter p = read_parameter(inside);
  if (p.length) return count(inside, at, quoted, sink);
  const auto& [length, name, index, operation, operation_at] = p;
  const std::size_t operand = at + operation_at;
  std::vector<Text> values;
  const bool set = known(name, index, values);
  if (name == "!") {  // an indirection
    sink.put(environment_.unknown("${" + std::string(inside) + "}", false, place(at)), quoted);
    return;
  }
  const bool empty = std::all_of(values.begin(), values.end(),
                                 [](const Text& text) { return text.bytes.empty(); });
  const bool colon = operation.starts_with(':');
  const std::string_view rest = operation.substr(colon ? 1 : 0);
  const char sign = rest.empty() ? '\0' : rest.front();
  const bool there = set && !(colon && empty);
  if (sign == '-' || sign == '=') {
    if (there) return value(name, index, at, quoted, sink);
    const Text otherwise = argument(rest.substr(1), operand + (colon ? 2 : 1));
    if (sign == '=' && !name.empty() && is_name_start(name.front()))
      environment_[std::string(name)] = {false, {otherwise}};
    return sink.put(otherwise, quoted);
  }
  if (sign == '+') {
    if (there) sink.put(argument(rest.substr(1), operand + (colon ? 2 : 1)), quoted);
    return;
  }
  if (sign == '?' || operation.empty() || !set) return value(name, index, at, quoted, sink);
  for (Text& text : values) text = transformed(text, operation, operand);
  sink.put(values, quoted, place(at));
}

// ${X%w} ${X%%w} ${X#w} ${X##w} ${X/a/b} ${X//a/b} ${X:from:size} ${X^^} ${X,,}
Text Expander::transformed(const Text& value, std::string_view operation, std::size_t at) {
  const std::string& bytes = value.bytes;
  if (bytes.size() > max_cut) return value;
  if (operation.starts_with("^^") || operation.starts_with(",,")) {
    Text text = value;
    for (char& c : text.bytes) {
      if (operation[0] == '^' && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
      if (operation[0] == ',') c = lower(c);
    }
    return text;
  }
  const char sign = operation.front();
  const bool twice = operation.size() > 1 && operation[1] == sign && sign != ':';
  const std::string_view rest = operation.substr(twice ? 2 : 1);
  if (sign == ':') {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    bool unsure = false;
    const auto from = environment_.tested(sum(rest.substr(0, colon), at), unsure);
    const auto size = colon < rest.size()
                          ? environment_.tested(sum(rest.substr(colon + 1), at), unsure)
                          : std::optional<std::string>(std::to_string(bytes.size()));
    if (!from || !size || !is_digits(*from) || !is_digits(*size)) return value;
    return value.part(std::min(number(*from), bytes.size()), number(*size));
  }
  if (sign == '/') {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const Text from = argument(rest.substr(0, slash), at);
    const Text to = argument(slash < rest.size() ? rest.substr(slash + 1) : "", at);
    if (from.bytes.empty() || from.bytes.find_first_of("*?[") != std::string::npos) return value;
    Text text;
    for (std::size_t i = 0, done = 0; i < bytes.size();) {
      if ((twice || done == 0) && bytes.compare(i, from.bytes.size(), from.bytes) == 0) {
        text.put(to);
        i += from.bytes.size();
        ++done;
      } else {
        text.put(bytes[i], value.at[i]);
        ++i;
      }
    }
    return text;
  }
  if (sign != '%' && sign != '#') return value;
  const Text pattern = argument(rest, at);
  const std::size_t n = bytes.size();
  for (std::size_t k = 0; k <= n; ++k) {
    const std::size_t cut = twice ? n - k : k;  // characters to remove
    const std::string_view part = std::string_view(bytes).substr(sign == '#' ? 0 : n - cut, cut);
    if (matches(part, pattern.bytes)) return value.part(sign == '#' ? cut : 0, n - cut);
  }
  return value;
}

Text Expander::sum(std::string_view expression, std::size_t at) {
  const Text text = argument(expression, at);
  std::string lost;  // the first part that is unknown
  if (text.unknown()) lost = environment_.word(text).unknowns.front();
  const auto of = [&](const std::string& name) -> std::optional<std::string> {
    std::vector<Text> values;
    const bool set = known(name, "", values) && !values.empty();
    if (set && !values.front().unknown()) return values.front().bytes;
    if (lost.empty()) lost = set ? environment_.plain(values.front()) : "$" + name;
    return {};
  };
  const auto value = lost.empty() ? arithmetic(text.bytes, of) : std::nullopt;
  if (!value && lost.empty()) lost = "$((" + std::string(expression) + "))";
  if (!value) return environment_.unknown(lost, false, place(at));
  Text result;
  result.put(std::to_string(*value), place(at));
  return result;
}

namespace {

// The value of an expression of numbers, as bc computes it.
std::optional<std::int64_t> without_variables(const Text& expression) {
  if (expression.unknown()) return std::nullopt;
  return arithmetic(expression.bytes,
                    [](const std::string&) { return std::optional<std::string>(); });
}

}  // namespace

// The text that `cat` prints of a here document; `at`: the place of the command in the script.
Text Expander::printed(const HereDocument& from, std::size_t at) {
  Raw body = from.body;
  body.at += at;
  if (!from.quoted) return document(body);
  Text text;
  text.put(body.text, body.at);
  return text;
}

// `...` and $(...): evaluates a few that need no program. The others are unknown.
void Expander::substitution(std::string_view inside, std::size_t at, bool quoted, Sink& sink) {
  const auto give_up = [&] {
    sink.put(environment_.unknown("$(" + std::string(inside.substr(0, 60)) + ")", false, place(at)),
             quoted);
  };
  bool truncated = false;
  const Node node =
      inside.size() < max_cut && depth_ < max_depth ? parse(inside, truncated) : Node();
  if (node.parts.size() != 1) return give_up();
  const bool pipe = node.parts[0].name == "|" && node.parts[0].parts.size() == 2;
  const Node& first = pipe ? node.parts[0].parts[0] : node.parts[0];
  if (first.kind != Node::Kind::simple || first.words.empty()) return give_up();
  std::vector<Raw> words = first.words;
  for (Raw& word : words) word.at += at;
  const std::vector<Text> all = fields(words);
  if (all.empty()) return give_up();
  const std::string name = environment_.plain(all.front());
  Text joined;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (i > 1) joined.put(' ', place(at));
    joined.put(all[i]);
  }
  if (pipe) {
    const Node& second = node.parts[0].parts[1];
    if (name != "echo" || second.words.empty() || second.words[0].text != "bc") return give_up();
    const auto value = without_variables(joined);
    if (!value) return give_up();
    Text result;
    result.put(std::to_string(*value), place(at));
    return sink.put(result, quoted);
  }
  if (name == "echo") return sink.put(joined, quoted);
  if (name == "cat" && all.size() == 1 && !first.documents.empty())
    return sink.put(printed(first.documents.front(), at), quoted);
  if (name == "pwd") {
    Text here;
    here.put('.', place(at));
    return sink.put(here, quoted);
  }
  if (name == "expr") {
    const Text result = sum(inside.substr(inside.find("expr") + 4), at);
    return sink.put(result, quoted);
  }
  if ((name == "basename" || name == "dirname") && all.size() == 2) {
    const std::size_t slash = all[1].bytes.rfind('/');
    if (name == "basename")
      return sink.put(
          slash == std::string::npos ? all[1] : all[1].part(slash + 1, std::string::npos), quoted);
    return sink.put(slash == std::string::npos ? Text() : all[1].part(0, slash), quoted);
  }
  give_up();
}

}  // namespace sim::shell
