#include "sim/input/models/huggingface_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "sim/base/json_text.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

std::string shortened(std::string_view text) {
  constexpr std::size_t longest = 160;
  return std::string(text.substr(0, longest)) + (text.size() > longest ? " ..." : "");
}

}  // namespace

// Receives the parser's events. They have no positions, so `token` follows them in the text. Each
// event is one token, and the parser has already accepted it.
class JsonReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonReader(JsonObject& object, Diagnostics& problems) : object_(object), problems_(problems) {}

  bool null() override { return scalar({}); }
  bool boolean(bool value) override {
    JsonValue v;
    v.kind = JsonValue::Kind::boolean;
    v.boolean = value;
    return scalar(std::move(v));
  }
  bool number_integer(number_integer_t value) override {
    JsonValue v;
    v.kind = JsonValue::Kind::integer;
    v.integer = value;
    v.real = static_cast<double>(value);
    return scalar(std::move(v));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      return number_float(static_cast<double>(value), {});
    return number_integer(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    JsonValue v;
    v.kind = JsonValue::Kind::real;
    v.real = value;
    return scalar(std::move(v));
  }
  bool string(string_t& value) override {
    JsonValue v;
    v.kind = JsonValue::Kind::text;
    v.text = value;
    return scalar(std::move(v));
  }
  bool binary(binary_t&) override { return false; }  // JSON text has no binary values

  bool start_object(std::size_t) override { return open(JsonValue::Kind::object); }
  bool start_array(std::size_t) override { return open(JsonValue::Kind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    key_start_ = token();
    key_ = value;
    if (!keys_.back().insert(value).second) {
      repeated_ = true;
      problem(key_start_, fmt::format("key \"{}\" is given twice; keep one", shortened(value)));
    } else {
      repeated_ = false;
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // `position` counts the bytes read; the last one is the error.
    const std::size_t offset = std::min(position == 0 ? 0 : position - 1, object_.text_.size());
    problem(offset, "not valid JSON: " + shortened(json_text(error.what())));
    return false;
  }

 private:
  void problem(std::size_t offset, std::string message) {
    if (problems_.size() < max_problems)
      problems_.push_back({object_.where(offset), std::move(message)});
  }

  // Returns the start of the next token and moves past it.
  std::size_t token() {
    const std::string& text = object_.text_;
    at_ = text.find_first_not_of(" \t\r\n,:", at_);
    assert(at_ != std::string::npos);
    const std::size_t start = at_;
    if (text[at_] == '"') {
      for (++at_; text[at_] != '"'; ++at_)
        if (text[at_] == '\\') ++at_;
      ++at_;
    } else if (std::string_view("{}[]").find(text[at_]) != std::string_view::npos) {
      ++at_;
    } else {
      at_ = std::min(text.find_first_of(" \t\r\n,:{}[]", at_), text.size());
    }
    return start;
  }

  bool scalar(JsonValue value) {
    value.start = token();
    value.end = at_;
    if (depth_ == 0) return not_an_object(value.start);
    keep(std::move(value));
    return true;
  }

  void keep(JsonValue value) {
    if (depth_ == 2 && in_list_) object_.values_[opened_].items.push_back(value);
    if (depth_ != 1 || repeated_) return;
    value.key = key_start_;
    object_.values_.emplace(key_, std::move(value));
  }

  bool open(JsonValue::Kind kind) {
    JsonValue value;
    value.kind = kind;
    value.start = token();
    value.end = at_;
    if (depth_ == 0 && kind != JsonValue::Kind::object) return not_an_object(value.start);
    if (depth_ == 0) object_.start_ = value.start;
    const std::size_t start = value.start;
    if (depth_ == 1) {
      opened_ = key_;
      kept_ = !repeated_;
      in_list_ = kept_ && kind == JsonValue::Kind::array;
      keep(std::move(value));
    }
    if (++depth_ > max_json_depth) {
      problem(start, fmt::format("nested more than {} deep", max_json_depth));
      return false;
    }
    keys_.emplace_back();
    return true;
  }

  bool close() {
    token();
    --depth_;
    keys_.pop_back();
    if (depth_ == 1 && kept_) object_.values_[opened_].end = at_;
    if (depth_ == 1) in_list_ = false;
    return true;
  }

  bool not_an_object(std::size_t offset) {
    problem(offset, "a model is a JSON object: write {\"model_type\": \"llama\", ...}");
    return false;
  }

  JsonObject& object_;
  Diagnostics& problems_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;  // keys of each open object
  std::string key_, opened_;                 // `opened_`: key of the open list or object
  bool kept_ = false;                        // ... if it is the first with its name
  bool in_list_ = false;
  std::size_t key_start_ = 0;
  bool repeated_ = false;
};

JsonObject::JsonObject(const std::string& text, std::string name)
    : name_(std::move(name)), text_(text), lines_{0} {
  for (std::size_t i = 0; i < text_.size(); ++i)
    if (text_[i] == '\n') lines_.push_back(i + 1);
}

std::optional<JsonObject> JsonObject::read(const std::string& text, const std::string& name,
                                           Diagnostics& problems) {
  if (static_cast<std::int64_t>(text.size()) > max_json_bytes) {
    problems.push_back({name, fmt::format("the file is larger than {} MiB, the most that is read",
                                          max_json_bytes >> 20)});
    return std::nullopt;
  }
  JsonObject object(text, name);
  JsonReader reader(object, problems);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) return std::nullopt;
  return object;
}

const JsonValue* JsonObject::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::string JsonObject::where(std::size_t offset) const {
  const auto after = std::upper_bound(lines_.begin(), lines_.end(), offset);
  const std::size_t line = static_cast<std::size_t>(after - lines_.begin());
  std::size_t column = 1;
  for (std::size_t i = lines_[line - 1]; i < std::min(offset, text_.size()); ++i)
    if ((static_cast<unsigned char>(text_[i]) & 0xC0) != 0x80) ++column;
  return fmt::format("{}:{}:{}", name_, line, column);
}

JsonObject JsonObject::part(const JsonValue& object) const {
  assert(object.kind == JsonValue::Kind::object);
  std::string text = text_;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((i < object.start || i >= object.end) && text[i] != '\n') text[i] = ' ';
  Diagnostics told;
  std::optional<JsonObject> inside = read(text, name_, told);
  assert(inside);
  return *std::move(inside);
}

std::string JsonObject::spelled(const JsonValue& value) const {
  constexpr std::size_t longest = 40;
  if (value.kind == JsonValue::Kind::array) return "a list";
  if (value.kind == JsonValue::Kind::object) return "an object";
  std::string text = text_.substr(value.start, value.end - value.start);
  return text.size() <= longest ? text : text.substr(0, longest) + "...";
}

}  // namespace sim::input
