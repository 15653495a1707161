#include "sim/input/text/reader.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/base/text.h"
#include "sim/input/text/number_text.h"
#include "sim/input/text/rules.h"

namespace sim::input {
namespace pb = google::protobuf;

Reader::Reader(Source& source, const std::string& text, std::span<const Synonym> synonyms)
    : source_(source),
      synonyms_(synonyms),
      stream_(text.data(), static_cast<int>(text.size())),
      tokenizer_(&stream_, this) {
  tokenizer_.set_comment_style(pb::io::Tokenizer::SH_COMMENT_STYLE);
  tokenizer_.set_allow_f_after_float(true);
  tokenizer_.set_require_space_after_number(false);
}

Diagnostics Reader::run(Message& message) {
  source_.places_[{&message, 0, 0}] = {1, 1, {}};
  next();
  fields(message, "");
  if (enough()) problems_.push_back({source_.path(), "more problems follow; fix these first"});
  return std::move(problems_);
}

void Reader::AddError(int line, int column, const std::string& message) {
  if (enough()) return;
  const bool foreign = message.starts_with("Interpreting non ascii");
  // The tokenizer reports each byte of a non-ASCII character; report it once.
  const bool again = foreign && foreign_.line == line && foreign_.column + 1 == column;
  if (foreign) foreign_ = {line, column, {}};
  if (again) return;
  problems_.push_back(
      {fmt::format("{}:{}:{}", source_.path(), line + 1, column + 1),
       foreign ? "a character that is no ASCII stands outside of quotation marks, which are \""
               : message});
}

void Reader::problem(const Token& at, std::string message) {
  if (enough()) return;
  problems_.push_back({place(at), std::move(message)});
}

void Reader::fields(Message& message, std::string_view closing) {
  while (!at_end() && !enough()) {
    if (!closing.empty() && at(closing)) return;
    one_field(message);
    if (at(",") || at(";")) next();
  }
}

void Reader::one_field(Message& message) {
  const Token name = token();
  if (name.type != TokenType::TYPE_IDENTIFIER) {
    problem(name, fmt::format("expected the name of a field, got '{}'", name.text.substr(0, 40)));
    next();
    if (name.text != "}" && name.text != ">") skip_line(name.line);
    return;
  }
  next();
  const Field* field = find(message, name.text);
  if (!field) {
    unknown(message, name);
    return skip_value();
  }
  const bool is_block = field->cpp_type() == Field::CPPTYPE_MESSAGE;
  if (at(":")) {
    next();
  } else if (!is_block) {
    problem(token(), fmt::format("expected ':' after '{}', got '{}'", name.text,
                                 at_end() ? "the end of the file" : token().text.substr(0, 40)));
    return skip_line(name.line);
  }
  const auto* reflection = message.GetReflection();
  if (!field->is_repeated() && source_.places_.contains({&message, field->number(), 0})) {
    problem(name, fmt::format("field '{}' is given twice; the first is at {}", field->name(),
                              source_.where(message, field->name())));
    // The duplicate is still parsed, to report its own errors.
    reflection->ClearField(&message, field);
  }
  if (!at("[")) return value(message, *field);
  if (!field->is_repeated())
    problem(token(), fmt::format("field '{}' takes one value, not a list", field->name()));
  next();
  while (!at("]") && !at_end() && !enough()) {
    const int line = token().line;
    value(message, *field);
    if (at(",")) {
      next();
    } else if (!at("]")) {
      problem(token(), "expected ',' or ']' in the list");
      return skip_line(line);
    }
  }
  if (at("]")) next();
}

const Reader::Field* Reader::find(const Message& message, std::string wanted) const {
  const auto* descriptor = message.GetDescriptor();
  if (descriptor->full_name() == "rehearse.v1.Plan")
    for (const Synonym& synonym : synonyms_)
      if (synonym.given == wanted) wanted = synonym.field;
  return descriptor->FindFieldByName(wanted);
}

void Reader::unknown(const Message& message, const Token& name) {
  const auto* descriptor = message.GetDescriptor();
  std::vector<std::string> names;
  for (int i = 0; i < descriptor->field_count(); ++i) names.push_back(descriptor->field(i)->name());
  std::string instead = did_you_mean(name.text.substr(0, 80), names);
  constexpr std::size_t few = 16;
  if (instead.empty() && names.size() <= few)
    instead = fmt::format("; it has {}", listed(names, "and"));
  problem(name, fmt::format("'{}' has no field '{}'{}", descriptor->name(), name.text.substr(0, 80),
                            instead));
}

void Reader::value(Message& message, const Field& field) {
  const Token start = token();
  const bool good = single(message, field, start);
  if (!good) return skip_line(start.line);
  const int index =
      field.is_repeated() ? message.GetReflection()->FieldSize(message, &field) - 1 : 0;
  source_.places_[{&message, field.number(), index}] = place_of(start);
}

bool Reader::single(Message& message, const Field& field, const Token& start) {
  switch (field.cpp_type()) {
    case Field::CPPTYPE_MESSAGE:
      return block(message, field, start);
    case Field::CPPTYPE_STRING:
      return text(message, field, start);
    case Field::CPPTYPE_BOOL:
    case Field::CPPTYPE_ENUM:
      return word(message, field, start);
    default:
      return number(message, field, start);
  }
}

bool Reader::block(Message& message, const Field& field, const Token& start) {
  if (!at("{") && !at("<")) {
    problem(start,
            fmt::format("field '{}' is a block; write {} {{ ... }}", field.name(), field.name()));
    return false;
  }
  const std::string closing = at("{") ? "}" : ">";
  if (++depth_ > max_depth) {
    problem(start, fmt::format("blocks are nested deeper than {}", max_depth));
    --depth_;
    skip_value();
    return true;
  }
  next();
  const auto* reflection = message.GetReflection();
  Message* inner = field.is_repeated() ? reflection->AddMessage(&message, &field)
                                       : reflection->MutableMessage(&message, &field);
  source_.places_[{inner, 0, 0}] = place_of(start);
  fields(*inner, closing);
  --depth_;
  if (at(closing)) {
    next();
  } else if (!enough()) {
    problem(token(), fmt::format("the block '{}' opened at {} is not closed; '{}' is missing",
                                 field.name(), place(start), closing));
  }
  return true;
}

bool Reader::text(Message& message, const Field& field, const Token& start) {
  if (start.type != TokenType::TYPE_STRING) return bare(field, start), false;
  std::string joined;
  while (token().type == TokenType::TYPE_STRING) {
    pb::io::Tokenizer::ParseStringAppend(token().text, &joined);
    next();
  }
  if (!is_utf8(joined)) {
    problem(start, fmt::format("the text of '{}' is not valid UTF-8", field.name()));
    return true;
  }
  const auto* reflection = message.GetReflection();
  if (field.is_repeated()) {
    reflection->AddString(&message, &field, std::move(joined));
  } else {
    reflection->SetString(&message, &field, std::move(joined));
  }
  return true;
}

// Takes the tokens that follow without a gap, up to one of `ends`, and returns their text.
std::string Reader::glued(int line, int column, std::string_view ends) {
  std::string given;
  while (!at_end() && token().line == line && token().column == column &&
         ends.find(token().text) == ends.npos) {
    given += token().text;
    column = token().end_column;
    next();
  }
  return given;
}

// Reports a text value without quotation marks. Often it is a quantity without its unit.
void Reader::bare(const Field& field, const Token& start) {
  const std::string given = glued(start.line, start.column, "},;]>");
  std::string fix = quantity_problem(field, given);
  if (fix.empty()) fix = fmt::format("'{}' is a text; write \"{}\"", field.name(), given);
  problem(start, std::move(fix));
}

bool Reader::number(Message& message, const Field& field, const Token& start) {
  bool negative = false;
  if (at("-")) {
    negative = true;
    next();
  }
  const bool integral =
      field.cpp_type() != Field::CPPTYPE_DOUBLE && field.cpp_type() != Field::CPPTYPE_FLOAT;
  if (integral) return whole(message, field, start, negative);
  return real(message, field, start, negative);
}

// Takes a number without its sign. "" after an error, which it reports.
std::string Reader::number_text(const Message& message, const Field& field, const Token& start,
                                bool negative) {
  const Token given = token();
  const bool real = field.cpp_type() == Field::CPPTYPE_DOUBLE;
  // The tokenizer takes `0x` without digits as an integer and reports it.
  const bool torn = given.text.ends_with('x') || given.text.ends_with('X');
  constexpr std::string_view ends = "},;]>:{";
  std::string text;
  if ((given.type == TokenType::TYPE_INTEGER && !torn) ||
      (given.type == TokenType::TYPE_FLOAT && real)) {
    next();
    // Only the next field may follow without a gap.
    const bool is_field =
        token().type == TokenType::TYPE_IDENTIFIER && find(message, token().text) != nullptr;
    text = given.text + (is_field ? "" : glued(given.line, given.end_column, ends));
  } else {
    text = glued(given.line, given.column, ends);
  }
  std::string said = number_problem(field, (negative ? "-" : "") + text);
  if (said.empty() && text == given.text) return text;
  if (text.empty()) text = given.text;
  if (said.empty())
    said = fmt::format("'{}' is a {} number, got '{}'", field.name(), real ? "finite" : "whole",
                       text.substr(0, 40));
  problem(start, std::move(said));
  return "";
}

bool Reader::whole(Message& message, const Field& field, const Token& start, bool negative) {
  const bool wide = field.cpp_type() == Field::CPPTYPE_INT64;
  assert(wide || field.cpp_type() == Field::CPPTYPE_INT32);  // the schemas use no others
  const std::string digits = number_text(message, field, start, negative);
  if (digits.empty()) return false;
  const std::uint64_t most = wide ? std::uint64_t{std::numeric_limits<std::int64_t>::max()}
                                  : std::uint64_t{std::numeric_limits<std::int32_t>::max()};
  std::uint64_t magnitude = 0;
  if (!pb::io::Tokenizer::ParseInteger(digits, most, &magnitude)) {
    problem(start, beyond_problem(field, (negative ? "-" : "") + digits));
    magnitude = 1;
  }
  const std::int64_t number =
      negative ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
  const auto* reflection = message.GetReflection();
  if (wide) {
    field.is_repeated() ? reflection->AddInt64(&message, &field, number)
                        : reflection->SetInt64(&message, &field, number);
  } else {
    const auto narrow = static_cast<std::int32_t>(number);
    field.is_repeated() ? reflection->AddInt32(&message, &field, narrow)
                        : reflection->SetInt32(&message, &field, narrow);
  }
  return true;
}

bool Reader::real(Message& message, const Field& field, const Token& start, bool negative) {
  assert(field.cpp_type() == Field::CPPTYPE_DOUBLE);  // the schemas use no float
  const std::string text = number_text(message, field, start, negative);
  if (text.empty()) return false;
  double number = pb::io::Tokenizer::ParseFloat(text);
  if (!std::isfinite(number)) {
    problem(start, fmt::format("'{}' is a finite number, got '{}'", field.name(), text));
    return false;
  }
  if (negative) number = -number;
  const auto* reflection = message.GetReflection();
  field.is_repeated() ? reflection->AddDouble(&message, &field, number)
                      : reflection->SetDouble(&message, &field, number);
  return true;
}

namespace {

// The suggestion for words of other tools; "": none.
std::string other_word(const Reader::Field& field, std::string_view given) {
  if (field.full_name() != "rehearse.v1.Node.interconnect") return "";
  if (given == "none" || given == "no" || given == "off") return "; without NVLink write pcie";
  if (given == "nvlink")
    return "; through NVSwitches write nvswitch, with links between every two GPUs mesh";
  return "";
}

}  // namespace

bool Reader::word(Message& message, const Field& field, const Token& start) {
  const auto* reflection = message.GetReflection();
  if (field.cpp_type() == Field::CPPTYPE_BOOL) {
    const bool yes = at("true") || at("True") || at("t") || at("1");
    if (!yes && !at("false") && !at("False") && !at("f") && !at("0")) {
      problem(start, fmt::format("'{}' is true or false, got '{}'", field.name(),
                                 start.text.substr(0, 40)));
      return false;
    }
    next();
    field.is_repeated() ? reflection->AddBool(&message, &field, yes)
                        : reflection->SetBool(&message, &field, yes);
    return true;
  }
  const auto* known = field.enum_type()->FindValueByName(start.text);
  if (!known || known->number() == 0) {
    const auto names = enum_names(field);
    std::string given = start.text.substr(0, 80);
    if (start.type == TokenType::TYPE_STRING && given.size() >= 2)
      given = given.substr(1, given.size() - 2);
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    std::string instead = other_word(field, given);
    if (instead.empty()) instead = did_you_mean(given, names);
    problem(start, fmt::format("'{}' is one of {} (without quotation marks), got '{}'{}",
                               field.name(), all, given, instead));
    return false;
  }
  next();
  field.is_repeated() ? reflection->AddEnum(&message, &field, known)
                      : reflection->SetEnum(&message, &field, known);
  return true;
}

// Skips the value of an unknown field, including whole blocks and lists.
void Reader::skip_value() {
  if (at(":")) next();
  const int line = token().line;
  if (!at("{") && !at("<") && !at("[")) {
    if (at("-")) next();
    const bool joined = token().type == TokenType::TYPE_STRING;
    next();
    while (joined && token().type == TokenType::TYPE_STRING) next();
    return;
  }
  std::int64_t open = 0;
  do {
    if (at("{") || at("<") || at("[")) ++open;
    if (at("}") || at(">") || at("]")) --open;
    next();
  } while (open > 0 && !at_end());
  if (open > 0)
    problem(token(), fmt::format("the block opened in line {} is not closed", line + 1));
}

// After an error: skips the rest of the line, up to a closing brace.
void Reader::skip_line(int line) {
  while (!at_end() && token().line == line && !at("}") && !at(">") && !at("]")) next();
}

}  // namespace sim::input
