#include "sim/input/launch/python/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

namespace sim::python {
namespace {

using Scope = std::map<std::string, Value, std::less<>>;

constexpr int deepest_call = 16;
constexpr std::size_t most_unread = 256;

// Calls that configure the class in their first argument [NVIDIA/NeMo-Run].
bool configures(const std::string& name) {
  return name == "Config" || name == "Partial" || name == "partial";
}

std::string text_of(double number) {
  if (std::nearbyint(number) == number && std::abs(number) < 1e15)
    return fmt::format("{:.0f}", number);
  return fmt::format("{}", number);
}

bool number_of(const Value& value, double& number) {
  if (!value.is(Value::Kind::number)) return false;
  const char* end = value.text.data() + value.text.size();
  const auto [stop, error] = std::from_chars(value.text.data(), end, number);
  return error == std::errc{} && stop == end;
}

class Follower {
  using Kind = Value::Kind;

 public:
  Follower(std::string_view text, bool (*is_goal)(const Object&))
      : text_(text), is_goal_(is_goal) {}

  Followed run() {
    const std::vector<Statement> all = parse(text_, out_.problem);
    if (!out_.problem.message.empty()) return std::move(out_);
    scopes_.emplace_back();
    execute(all);
    // Functions that something outside of the script calls, such as an entry point.
    for (const auto& [name, function] : functions_) {
      if (reached() || called_.contains(name)) continue;
      call(*function, {}, 0);
    }
    out_.too_long = steps_ > max_steps;
    return std::move(out_);
  }

 private:
  bool reached() const { return std::ranges::any_of(out_.objects, is_goal_); }

  static Value value(Kind kind, std::string text, std::size_t at) {
    return {kind, std::move(text), at, nullptr, nullptr};
  }

  Value list_of(std::vector<Value> items, std::size_t at) {
    elements_ += items.size();
    Value all = value(Kind::list, "", at);
    all.items = &out_.lists.emplace_back(std::move(items));
    return all;
  }

  Value object_of(Object made) {
    Value one = value(Kind::object, "", made.at);
    one.object = &out_.objects.emplace_back(std::move(made));
    return one;
  }

  void leave(Unread::Kind kind, std::string text, std::size_t at) {
    if (out_.unread.size() < most_unread) out_.unread.push_back({kind, std::move(text), at});
  }

  Value unknown(const Expression& from) const {
    std::string text = from.text;
    if (from.kind == Expression::Kind::member) text = dotted(from);
    return value(Kind::unknown, text.empty() ? "a value of the run" : text, from.at);
  }

  static std::string dotted(const Expression& one) {
    if (one.kind == Expression::Kind::name) return one.text;
    if (one.kind == Expression::Kind::member) return dotted(one.parts[0]) + "." + one.text;
    if (one.kind == Expression::Kind::call) return dotted(one.parts[0]) + "()";
    return "?";
  }

  // --- statements ---

  // False after a `return`.
  bool execute(const std::vector<Statement>& all) {
    for (const Statement& one : all) {
      if (++steps_ > max_steps) return false;
      if (!execute(one)) return false;
    }
    return true;
  }

  bool execute(const Statement& one) {
    switch (one.kind) {
      case Statement::Kind::expression:
        evaluate(one.values[0]);
        break;
      case Statement::Kind::assign:
        assign(one);
        break;
      case Statement::Kind::import:
        for (const auto& [name, path] : one.names) here()[name] = value(Kind::path, path, one.at);
        break;
      case Statement::Kind::define:
        functions_[one.text] = &one;
        break;
      case Statement::Kind::condition:
        return condition(one);
      case Statement::Kind::block:
        return execute(one.body);
      case Statement::Kind::loop:
        leave(Unread::Kind::loop, one.text, one.at);
        break;
      case Statement::Kind::give:
        if (!one.values.empty()) given_ = evaluate(one.values[0]);
        return false;
      case Statement::Kind::type:
      case Statement::Kind::none:
        break;
    }
    return true;
  }

  bool condition(const Statement& one) {
    const Expression& test = one.values[0];
    bool is_true = false;
    if (test.kind == Expression::Kind::other && test.text.starts_with("__name__")) {
      is_true = true;
    } else {
      const Value decides = evaluate(test);
      const bool is_known =
          !decides.is(Kind::unknown) && !decides.is(Kind::missing) && !decides.is(Kind::path);
      if (!is_known)
        leave(Unread::Kind::condition,
              std::string(text_.substr(test.at, line_end(test.at) - test.at)), test.at);
      double number = 1;
      number_of(decides, number);
      is_true = is_known && !decides.is(Kind::nothing) && decides.text != "False" && number != 0 &&
                !(decides.is(Kind::string) && decides.text.empty()) &&
                !(decides.is(Kind::list) && decides.items->empty());
    }
    return execute(is_true ? one.body : one.otherwise);
  }

  std::size_t line_end(std::size_t from) const {
    const std::size_t end = std::min(text_.find('\n', from), text_.size());
    return std::min(end > from && text_[end - 1] == ':' ? end - 1 : end, from + 80);
  }

  void assign(const Statement& one) {
    Value made = evaluate(one.values[0]);
    for (const Expression& target : one.targets) {
      if (target.kind == Expression::Kind::list) {
        for (std::size_t i = 0; i < target.parts.size(); ++i) {
          const bool is_known = made.is(Kind::list) && i < made.items->size();
          put(target.parts[i], is_known ? (*made.items)[i] : unknown(one.values[0]));
        }
        continue;
      }
      if (one.text.empty()) {
        put(target, made);
      } else {
        Value* place = find(target, false);
        put(target, place ? calculated(one.text, *place, made, target) : unknown(target));
      }
    }
  }

  void put(const Expression& target, const Value& made) {
    if (target.kind == Expression::Kind::item) return put_item(target, made);
    if (Value* place = find(target, true))
      *place = made;
    else
      leave(Unread::Kind::assignment, dotted(target), target.at);
  }

  // os.environ["NAME"] = ..., list[0] = ..., dict["name"] = ...
  void put_item(const Expression& target, const Value& made) {
    const Value of = evaluate(target.parts[0]);
    const Value key = evaluate(target.parts[1]);
    if (of.is(Kind::path) && of.name() == "environ" && key.is(Kind::string))
      out_.environment[key.text] = made;
    if (of.is(Kind::object) && key.is(Kind::string)) of.object->fields[key.text] = made;
    double index = -1;
    if (of.is(Kind::list) && number_of(key, index) && index >= 0 &&
        index < static_cast<double>(of.items->size()))
      (*of.items)[static_cast<std::size_t>(index)] = made;
  }

  // --- names ---

  Scope& here() { return scopes_.back(); }

  Value* variable(const std::string& name) {
    if (const auto found = here().find(name); found != here().end()) return &found->second;
    const auto global = scopes_.front().find(name);
    return global == scopes_.front().end() ? nullptr : &global->second;
  }

  // The place of a name or of a field. `make`: made if it is missing. Nothing: no object has it.
  Value* find(const Expression& target, bool make) {
    if (target.kind == Expression::Kind::name) {
      if (make) return &here()[target.text];
      return variable(target.text);
    }
    if (target.kind != Expression::Kind::member) return nullptr;
    Value* of = find(target.parts[0], false);
    Value made;
    if (!of && make && target.parts[0].kind == Expression::Kind::member)
      of = find(target.parts[0], true);
    if (!of) {
      made = evaluate(target.parts[0]);
      of = &made;
    }
    if (make && (of->is(Kind::missing) || of->is(Kind::nothing))) {
      *of = object_of({"", target.at, {}, {}, nullptr});
    }
    if (!of->is(Kind::object)) return nullptr;
    auto& fields = of->object->fields;
    if (make) return &fields[target.text];
    const auto found = fields.find(target.text);
    return found == fields.end() ? nullptr : &found->second;
  }

  // --- expressions ---

  Value evaluate(const Expression& one) {
    using E = Expression::Kind;
    if (++steps_ > max_steps) return unknown(one);
    switch (one.kind) {
      case E::nothing:
        return value(Kind::nothing, "None", one.at);
      case E::truth:
        return value(Kind::truth, one.text, one.at);
      case E::number:
        return value(Kind::number, one.text, one.at);
      case E::string:
        return value(Kind::string, one.text.substr(0, max_string), one.at);
      case E::list:
        return list(one);
      case E::dict:
        return dict(one);
      case E::name:
        return named(one);
      case E::member:
        return member(one);
      case E::item:
        return item(one);
      case E::call:
        return called(one);
      case E::negative: {
        double number = 0;
        const Value of = evaluate(one.parts[0]);
        return number_of(of, number) ? value(Kind::number, text_of(-number), one.at) : unknown(one);
      }
      case E::product: {
        const Value left = evaluate(one.parts[0]);
        return calculated(one.text, left, evaluate(one.parts[1]), one);
      }
      case E::other:
        break;
    }
    return unknown(one);
  }

  Value named(const Expression& one) {
    if (const Value* found = variable(one.text)) {
      Value copy = *found;
      if (copy.is(Kind::missing)) return unknown(one);
      if (!copy.is(Kind::object) && !copy.is(Kind::list)) copy.at = one.at;
      return copy;
    }
    return value(functions_.contains(one.text) ? Kind::unknown : Kind::path, one.text, one.at);
  }

  Value member(const Expression& one) {
    const Value of = evaluate(one.parts[0]);
    if (of.is(Kind::path)) return value(Kind::path, of.text + "." + one.text, one.at);
    if (!of.is(Kind::object)) return unknown(one);
    const Value field = of.object->field(one.text);
    if (!field.is(Kind::missing)) return field;
    if (of.object->name() == "parse_args" || of.object->name() == "parse_known_args")
      if (const auto found = defaults_.find(one.text); found != defaults_.end())
        return found->second;
    return unknown(one);
  }

  Value item(const Expression& one) {
    const Value of = evaluate(one.parts[0]), key = evaluate(one.parts[1]);
    double index = -1;
    if (of.is(Kind::list) && number_of(key, index) && index >= 0 &&
        index < static_cast<double>(of.items->size()))
      return (*of.items)[static_cast<std::size_t>(index)];
    if (of.is(Kind::object) && key.is(Kind::string))
      if (const Value field = of.object->field(key.text); !field.is(Kind::missing)) return field;
    return value(Kind::unknown, dotted(one.parts[0]) + "[...]", one.at);
  }

  Value list(const Expression& one) {
    std::vector<Value> items;
    for (const Expression& part : one.parts) items.push_back(evaluate(part));
    return list_of(std::move(items), one.at);
  }

  Value dict(const Expression& one) {
    Object made{"dict", one.at, {}, {}, nullptr};
    for (std::size_t i = 0; i < one.parts.size(); ++i)
      if (!one.names[i].empty()) made.fields[one.names[i]] = evaluate(one.parts[i]);
    return object_of(std::move(made));
  }

  bool is_full(std::size_t more) const { return elements_ + more > max_elements; }

  // A number, or a list made of others: [0] * 3 + [1] * 58.
  Value calculated(const std::string& by, const Value& left, const Value& right,
                   const Expression& from) {
    double x = 0, y = 0;
    if (left.is(Kind::list) && right.is(Kind::list) && by == "+") {
      if (is_full(left.items->size() + right.items->size())) return unknown(from);
      std::vector<Value> both = *left.items;
      both.insert(both.end(), right.items->begin(), right.items->end());
      return list_of(std::move(both), from.at);
    }
    if (left.is(Kind::list) && number_of(right, y) && by == "*") {
      if (!(y >= 0 && y <= max_elements) ||
          is_full(static_cast<std::size_t>(y) * left.items->size()))
        return unknown(from);
      std::vector<Value> all;
      for (int i = 0; i < static_cast<int>(y); ++i)
        all.insert(all.end(), left.items->begin(), left.items->end());
      return list_of(std::move(all), from.at);
    }
    if (!number_of(left, x) || !number_of(right, y)) return unknown(from);
    const bool divides = by == "/" || by == "//" || by == "%";
    if (divides && y == 0) return unknown(from);
    const double made = by == "+"    ? x + y
                        : by == "-"  ? x - y
                        : by == "*"  ? x * y
                        : by == "/"  ? x / y
                        : by == "//" ? std::floor(x / y)
                        : by == "%"  ? x - y * std::floor(x / y)
                                     : std::pow(x, y);
    return value(Kind::number, text_of(made), from.at);
  }

  // --- calls ---

  struct Arguments {
    std::vector<Value> positional;
    std::map<std::string, Value, std::less<>> keywords;
  };

  Arguments arguments_of(const Expression& one) {
    Arguments all;
    for (std::size_t i = 0; i < one.names.size(); ++i) {
      Value made = evaluate(one.parts[i + 1]);
      const std::string& name = one.names[i];
      if (name == "**" && made.is(Kind::object)) {
        for (const auto& [key, field] : made.object->fields) all.keywords[key] = field;
      } else if (name == "**" || name == "*") {
        leave(Unread::Kind::keywords, name + dotted(one.parts[i + 1]), one.parts[i + 1].at);
      } else if (name.empty()) {
        all.positional.push_back(std::move(made));
      } else {
        all.keywords[name] = std::move(made);
      }
    }
    return all;
  }

  Value called(const Expression& one) {
    const Expression& callee = one.parts[0];
    if (callee.kind == Expression::Kind::name)
      if (const auto found = functions_.find(callee.text); found != functions_.end())
        return call(*found->second, arguments_of(one), one.at);
    Arguments arguments = arguments_of(one);
    if (callee.kind == Expression::Kind::member && method(callee, arguments))
      return value(Kind::nothing, "None", one.at);
    const Value target = evaluate(callee);
    if (target.text == "getattr" && arguments.positional.size() > 1)
      return attribute(arguments.positional, one);
    std::string path = target.is(Kind::path) ? target.text : dotted(callee);
    if (target.is(Kind::object) && !target.object->path.empty()) {  // partial(...)(name=...)
      for (auto& [name, field] : arguments.keywords) target.object->fields[name] = field;
      return target;
    }
    if (configures(path.substr(path.find_last_of('.') + 1)) && !arguments.positional.empty()) {
      const Value& of = arguments.positional.front();
      if (of.is(Kind::unknown) && functions_.contains(of.text))
        return call(*functions_.find(of.text)->second, std::move(arguments), one.at, 1);
      if (of.is(Kind::path)) path = of.text;
      arguments.positional.erase(arguments.positional.begin());
    }
    Object made{std::move(path), one.at, std::move(arguments.positional),
                std::move(arguments.keywords), nullptr};
    if (callee.kind == Expression::Kind::member) made.of = evaluate(callee.parts[0]).object;
    return object_of(std::move(made));
  }

  // getattr(llm, "llama3_8b").
  Value attribute(const std::vector<Value>& of, const Expression& from) const {
    if (of[0].is(Kind::path) && of[1].is(Kind::string))
      return value(Kind::path, of[0].text + "." + of[1].text, from.at);
    return value(Kind::unknown, "getattr()", from.at);
  }

  // Methods with an effect: on lists, on os.environ, on a parser of arguments. False: another one.
  bool method(const Expression& callee, const Arguments& arguments) {
    const std::vector<Value>& given = arguments.positional;
    if (callee.text == "append" || callee.text == "extend" || callee.text == "insert") {
      Value* place = find(callee.parts[0], true);
      if (!place || given.empty()) return false;
      if (place->is(Kind::missing) || place->is(Kind::nothing)) *place = list_of({}, callee.at);
      const bool joins = callee.text == "extend" && given.back().is(Kind::list);
      const std::vector<Value> more = joins ? *given.back().items : std::vector{given.back()};
      if (!place->is(Kind::list) || is_full(more.size())) return false;
      elements_ += more.size();
      place->items->insert(place->items->end(), more.begin(), more.end());
      return true;
    }
    const Value of = evaluate(callee.parts[0]);
    if (callee.text == "setdefault" && of.is(Kind::path) && of.name() == "environ" &&
        given.size() == 2 && given[0].is(Kind::string)) {
      out_.environment.emplace(given[0].text, given[1]);
      return true;
    }
    if (callee.text == "add_argument" && !given.empty() && given.back().is(Kind::string)) {
      std::string name = given.back().text;
      name.erase(0, name.find_first_not_of('-'));
      std::ranges::replace(name, '-', '_');
      const auto otherwise = arguments.keywords.find("default");
      const auto action = arguments.keywords.find("action");
      if (otherwise != arguments.keywords.end())
        defaults_[name] = otherwise->second;
      else if (action != arguments.keywords.end() && action->second.text == "store_true")
        defaults_[name] = value(Kind::truth, "False", given.back().at);
      return true;
    }
    return false;
  }

  // Follows a function of the script. `from`: the first argument that is its own.
  Value call(const Statement& function, Arguments arguments, std::size_t at, std::size_t from = 0) {
    called_.insert(function.text);
    if (scopes_.size() > deepest_call) return value(Kind::unknown, function.text + "()", at);
    Scope scope;
    std::vector<Value> defaults;
    for (const Expression& otherwise : function.values)
      defaults.push_back(otherwise.kind == Expression::Kind::other ? Value{} : evaluate(otherwise));
    for (std::size_t i = 0; i < function.targets.size(); ++i) {
      const std::string& name = function.targets[i].text;
      const auto keyword = arguments.keywords.find(name);
      scope[name] = keyword != arguments.keywords.end()      ? keyword->second
                    : i + from < arguments.positional.size() ? arguments.positional[i + from]
                    : defaults[i].is(Kind::missing)          ? value(Kind::unknown, name, at)
                                                             : defaults[i];
    }
    scopes_.push_back(std::move(scope));
    given_ = value(Kind::nothing, "None", at);
    execute(function.body);
    Value made = std::move(given_);
    given_ = {};
    scopes_.pop_back();
    return made;
  }

  std::string_view text_;
  bool (*is_goal_)(const Object&);
  Followed out_;
  std::vector<Scope> scopes_;
  std::map<std::string, const Statement*, std::less<>> functions_;
  std::set<std::string, std::less<>> called_;
  Scope defaults_;  // of the script's own arguments
  Value given_;     // by the last `return`
  int steps_ = 0;
  std::size_t elements_ = 0;  // of all lists
};

}  // namespace

Followed follow(std::string_view text, bool (*is_goal)(const Object&)) {
  return Follower(text, is_goal).run();
}

}  // namespace sim::python
