#include "sim/input/launch/python/expressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sim::python {

// Several with commas between are a tuple.
Expression ExpressionParser::expressions() {
  Expression first = expression();
  if (!is(",")) return first;
  Expression all{Kind::list, "", first.at, {}, {}};
  all.parts.push_back(std::move(first));
  while (take(",")) {
    if (is(Token::Kind::line_end) || is("=") || is(")")) break;
    all.parts.push_back(expression());
  }
  return all;
}

bool ExpressionParser::ends() const {
  static constexpr std::array<std::string_view, 8> marks = {",", ")", "]", "}",
                                                            ":", "=", ";", "->"};
  if (is(Token::Kind::line_end) || is(Token::Kind::end)) return true;
  if (!is(Token::Kind::symbol)) return false;
  if (std::ranges::count(marks, here().text) > 0) return true;
  // An augmented assignment: +=, but no comparison.
  return here().text.size() > 1 && here().text.back() == '=' &&
         std::string_view("=!<>:").find(here().text.front()) == std::string_view::npos;
}

// One expression. If it is of another kind than those of the tree, all its text is one node.
Expression ExpressionParser::expression() {
  const std::size_t start = at_, from = here().at;
  if (++depth_ > max_depth) {
    fail(fmt::format("nested deeper than {} brackets", max_depth));
    --depth_;
    return {};
  }
  Expression one = sum();
  --depth_;
  if (ends() && one.kind != Kind::other) return one;
  at_ = start;
  // A lambda has commas, '=' and a ':' of its own.
  for (int open = 0, lambdas = 0; !is(Token::Kind::end); next()) {
    if (open == 0 && ends() && (lambdas == 0 || is(Token::Kind::line_end))) break;
    if (open == 0 && is_word("lambda")) ++lambdas;
    if (open == 0 && is(":")) --lambdas;
    if (is("(") || is("[") || is("{")) ++open;
    if (is(")") || is("]") || is("}")) --open;
  }
  const std::size_t to = at_ > start ? tokens_[at_ - 1].stop : from;
  if (at_ == start)
    fail(here().text.empty() ? "a value is missing"
                             : fmt::format("'{}' stands where a value is expected", here().text));
  return {Kind::other, between(from, to), from, {}, {}};
}

// True if the index that starts here has a ':' outside of inner brackets.
bool ExpressionParser::has_slice() const {
  int open = 0;
  for (std::size_t i = at_; tokens_[i].kind != Token::Kind::end; ++i) {
    if (tokens_[i].kind != Token::Kind::symbol) continue;
    const std::string& text = tokens_[i].text;
    if (open == 0 && text == ":") return true;
    if (text == "(" || text == "[" || text == "{") ++open;
    if ((text == ")" || text == "]" || text == "}") && --open < 0) return false;
  }
  return false;
}

Expression ExpressionParser::joined(Expression left, std::string symbol, Expression right) {
  Expression both{Kind::product, std::move(symbol), left.at, {}, {}};
  if (left.kind == Kind::other || right.kind == Kind::other) both.kind = Kind::other;
  both.parts.push_back(std::move(left));
  both.parts.push_back(std::move(right));
  return both;
}

Expression ExpressionParser::sum() {
  Expression left = product();
  while (is("+") || is("-")) {
    std::string symbol = here().text;
    next();
    left = joined(std::move(left), std::move(symbol), product());
  }
  return left;
}

Expression ExpressionParser::product() {
  Expression left = power();
  while (is("*") || is("/") || is("//") || is("%")) {
    std::string symbol = here().text;
    next();
    left = joined(std::move(left), std::move(symbol), power());
  }
  return left;
}

Expression ExpressionParser::power() {
  if (is("-")) {
    Expression one{Kind::negative, "", here().at, {}, {}};
    next();
    if (++depth_ > max_depth) fail("too many signs");
    one.parts.push_back(power());
    --depth_;
    if (one.parts[0].kind == Kind::other) one.kind = Kind::other;
    return one;
  }
  Expression base = primary();
  if (!take("**")) return base;
  return joined(std::move(base), "**", primary());
}

// An atom with its members, calls and items.
Expression ExpressionParser::primary() {
  Expression one = atom();
  while (problem_.message.empty() && one.kind != Kind::other) {
    if (take(".")) {
      Expression member{Kind::member, here().text, one.at, {}, {}};
      if (!is(Token::Kind::name)) fail("a name is expected after '.'");
      next();
      member.parts.push_back(std::move(one));
      one = std::move(member);
    } else if (is("(")) {
      one = call(std::move(one));
    } else if (take("[")) {
      Expression item{Kind::item, "", one.at, {}, {}};
      item.parts.push_back(std::move(one));
      if (has_slice()) item.kind = Kind::other;  // the caller reads on over its text
      if (item.kind == Kind::item) item.parts.push_back(expressions());
      if (!take("]")) item.kind = Kind::other;
      one = std::move(item);
    } else {
      break;
    }
  }
  return one;
}

Expression ExpressionParser::call(Expression callee) {
  Expression one{Kind::call, "", callee.at, {}, {}};
  one.parts.push_back(std::move(callee));
  next();
  while (!is(")") && !is(Token::Kind::end)) {
    std::string name;
    if (is("*") || is("**")) {
      name = here().text;
      next();
    } else if (is(Token::Kind::name) && tokens_[at_ + 1].text == "=" &&
               tokens_[at_ + 1].kind == Token::Kind::symbol) {
      name = here().text;
      next();
      next();
    }
    one.names.push_back(std::move(name));
    one.parts.push_back(expression());
    if (!take(",") && !is(")")) fail(fmt::format("'{}' is no argument", here().text));
  }
  take(")");
  return one;
}

// Elements up to the closing bracket. A comprehension makes the whole unknown: `other`.
Expression ExpressionParser::elements(Kind kind, std::string_view close) {
  Expression all{kind, "", here().at, {}, {}};
  next();
  bool has_comma = false;
  while (!is(close) && !is(Token::Kind::end)) {
    if (is("*") || is("**")) {
      all.kind = Kind::other;
      next();
    }
    all.parts.push_back(expression());
    if (close == "}") {
      const Expression key = all.parts.back();
      all.names.push_back(key.kind == Kind::string ? key.text : "");
      if (take(":"))
        all.parts.back() = expression();
      else
        all.kind = Kind::other;  // a set
    }
    if (take(","))
      has_comma = true;
    else if (!is(close))
      fail(fmt::format("'{}' is no element", here().text));
  }
  next();
  if (close == ")" && !has_comma && all.parts.size() == 1) return std::move(all.parts[0]);
  return all;
}

// Strings side by side are one.
Expression ExpressionParser::strings() {
  Expression one{Kind::string, "", here().at, {}, {}};
  for (; is(Token::Kind::string) || is(Token::Kind::pattern); next()) {
    if (is(Token::Kind::pattern)) one.kind = Kind::other;
    one.text += here().text;
  }
  return one;
}

Expression ExpressionParser::atom() {
  Expression one{Kind::other, here().text, here().at, {}, {}};
  if (is("[")) return elements(Kind::list, "]");
  if (is("(")) return elements(Kind::list, ")");
  if (is("{")) return elements(Kind::dict, "}");
  if (is(Token::Kind::number)) {
    one.kind = Kind::number;
    next();
    return one;
  }
  if (is(Token::Kind::string) || is(Token::Kind::pattern)) return strings();
  if (!is(Token::Kind::name)) return one;
  for (const char* word : {"lambda", "not", "await", "yield"})
    if (is_word(word)) return one;
  const std::string& word = one.text;
  one.kind = word == "None"                      ? Kind::nothing
             : word == "True" || word == "False" ? Kind::truth
                                                 : Kind::name;
  next();
  return one;
}

}  // namespace sim::python
