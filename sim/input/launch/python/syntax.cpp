#include "sim/input/launch/python/syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sim::python {
namespace {

class Parser {
  using Kind = Expression::Kind;

 public:
  Parser(std::string_view text, SyntaxProblem& problem)
      : text_(text), problem_(problem), tokens_(tokens_of(text, problem)) {}

  std::vector<Statement> run() {
    std::vector<Statement> all;
    while (!is(Token::Kind::end) && problem_.message.empty()) statement(all);
    return all;
  }

 private:
  const Token& here() const { return tokens_[at_]; }
  bool is(Token::Kind kind) const { return here().kind == kind; }
  bool is(std::string_view symbol) const {
    return is(Token::Kind::symbol) && here().text == symbol;
  }
  bool is_word(std::string_view word) const { return is(Token::Kind::name) && here().text == word; }
  void next() {
    if (!is(Token::Kind::end)) ++at_;
  }
  bool take(std::string_view symbol) {
    const bool there = is(symbol);
    if (there) next();
    return there;
  }
  void fail(std::string message) {
    if (problem_.message.empty()) problem_ = {std::move(message), here().at};
    at_ = tokens_.size() - 1;
  }
  std::string between(std::size_t from, std::size_t to) const {
    return std::string(text_.substr(from, std::min<std::size_t>(to - from, 80)));
  }

  // --- statements ---

  void statement(std::vector<Statement>& into) {
    if (depth_ > max_depth) return fail(fmt::format("nested deeper than {} blocks", max_depth));
    while (take("@")) {  // a decorator
      expression();
      end_of_line();
    }
    if (is(Token::Kind::line_end) || is(Token::Kind::indent) || is(Token::Kind::dedent))
      return next();
    if (is_word("async")) next();
    if (is_word("def")) return into.push_back(define());
    if (is_word("class")) return into.push_back(compound(Statement::Kind::type));
    if (is_word("if")) return into.push_back(condition());
    for (const char* word : {"with", "try", "finally"})
      if (is_word(word)) return into.push_back(compound(Statement::Kind::block));
    if (is_word("for") || is_word("while")) return into.push_back(compound(Statement::Kind::loop));
    if (is_word("except") || is_word("else")) {  // of try, for, while
      compound(Statement::Kind::block);
      return;
    }
    simple(into);
  }

  // Statements of one line.
  void simple(std::vector<Statement>& into) {
    do {
      if (is(Token::Kind::line_end) || is(Token::Kind::end)) break;
      into.push_back(small());
    } while (take(";"));
    end_of_line();
  }

  void end_of_line() {
    if (is(Token::Kind::line_end)) return next();
    if (!is(Token::Kind::end)) fail(fmt::format("'{}' is not expected here", here().text));
  }

  Statement small() {
    Statement one;
    one.at = here().at;
    for (const char* word : {"import", "from"})
      if (is_word(word)) return import(word[0] == 'f');
    if (is_word("return")) {
      next();
      one.kind = Statement::Kind::give;
      if (!is(Token::Kind::line_end)) one.values.push_back(expressions());
      return one;
    }
    for (const char* word :
         {"pass", "break", "continue", "global", "nonlocal", "assert", "raise", "del"})
      if (is_word(word)) {
        skip_line();
        return one;
      }
    one.values.push_back(expressions());
    one.kind = Statement::Kind::expression;
    if (take(":")) {  // an annotation
      one.targets = std::move(one.values);
      one.values.clear();
      expression();
      one.kind = Statement::Kind::none;
      if (!is("=")) return one;
    }
    while (is("=")) {
      next();
      one.kind = Statement::Kind::assign;
      if (!one.values.empty()) {
        one.targets.push_back(std::move(one.values.back()));
        one.values.clear();
      }
      one.values.push_back(expressions());
    }
    if (is(Token::Kind::symbol) && here().text.size() > 1 && here().text.back() == '=' &&
        std::string_view("=!<>:").find(here().text.front()) == std::string_view::npos) {
      one.kind = Statement::Kind::assign;
      one.text = here().text.substr(0, here().text.size() - 1);
      next();
      one.targets = std::move(one.values);
      one.values = {expressions()};
    }
    return one;
  }

  void skip_line() {
    while (!is(Token::Kind::line_end) && !is(Token::Kind::end) && !is(";")) next();
  }

  std::string path() {
    std::string all;
    while (is(".") || is("...")) {
      all += here().text;
      next();
    }
    while (is(Token::Kind::name)) {
      all += here().text;
      next();
      if (!take(".")) break;
      all += '.';
    }
    return all;
  }

  // "import a.b as c", "from a import b as c, d".
  Statement import(bool of_names) {
    Statement one;
    one.at = here().at;
    one.kind = Statement::Kind::import;
    next();
    std::string from;
    if (of_names) {
      from = path() + ".";
      if (!is_word("import")) fail("'from' lacks its 'import'");
      next();
    }
    const bool in_brackets = take("(");
    while (is(Token::Kind::name)) {
      const std::string whole = path();
      std::string name = of_names ? whole : whole.substr(0, whole.find('.'));
      const bool renamed = is_word("as");
      if (renamed) {
        next();
        name = here().text;
        next();
      }
      one.names.emplace_back(name, from + (of_names || renamed ? whole : name));
      if (!take(",")) break;
    }
    if (take("*")) return one;
    if (in_brackets && !take(")")) fail("the imported names lack their ')'");
    return one;
  }

  // The block after a ':', on the same line or indented.
  std::vector<Statement> block() {
    std::vector<Statement> body;
    if (!take(":")) fail(fmt::format("':' is expected before '{}'", here().text));
    ++depth_;
    if (!is(Token::Kind::line_end)) {
      simple(body);
    } else {
      next();
      if (is(Token::Kind::indent)) {
        next();
        while (!is(Token::Kind::dedent) && !is(Token::Kind::end)) statement(body);
        if (is(Token::Kind::dedent)) next();
      }
    }
    --depth_;
    return body;
  }

  // Skips to the ':' that opens the block.
  void skip_head() {
    for (int open = 0; !is(Token::Kind::line_end) && !is(Token::Kind::end); next()) {
      if (is("(") || is("[") || is("{")) ++open;
      if (is(")") || is("]") || is("}")) --open;
      if (open == 0 && is(":")) return;
    }
  }

  Statement compound(Statement::Kind kind) {
    Statement one;
    one.kind = kind;
    one.at = here().at;
    next();
    one.text = here().text;
    skip_head();
    one.body = block();
    return one;
  }

  Statement condition() {
    Statement one;
    one.kind = Statement::Kind::condition;
    one.at = here().at;
    next();
    const std::size_t from = here().at, start = at_;
    Expression test = expression();
    if (!is(":")) {
      at_ = start;
      skip_head();
      test = {Kind::other, between(from, here().at), from, {}, {}};
    }
    one.values.push_back(std::move(test));
    one.body = block();
    if (is_word("elif")) {
      if (++depth_ > max_depth) fail(fmt::format("more than {} elif", max_depth));
      if (problem_.message.empty()) one.otherwise.push_back(condition());
      --depth_;
    } else if (is_word("else")) {
      next();
      one.otherwise = block();
    }
    return one;
  }

  Statement define() {
    Statement one;
    one.kind = Statement::Kind::define;
    one.at = here().at;
    next();
    one.text = here().text;
    next();
    if (!take("(")) fail("a function has its parameters in brackets");
    while (!is(")") && !is(Token::Kind::end)) {
      const bool unpacks = take("*") || take("**");
      Expression parameter{Kind::name, here().text, here().at, {}, {}};
      Expression otherwise{Kind::other, "", here().at, {}, {}};
      const bool is_name = is(Token::Kind::name);
      if (is_name) next();
      if (take(":")) expression();
      if (take("=")) otherwise = expression();
      if (is_name && !unpacks) {
        one.targets.push_back(std::move(parameter));
        one.values.push_back(std::move(otherwise));
      }
      if (take("/") || take(",")) continue;
      if (!is(")")) fail(fmt::format("'{}' is no parameter", here().text));
    }
    take(")");
    if (take("->")) expression();
    one.body = block();
    return one;
  }

  // --- expressions ---

  // Several with commas between are a tuple.
  Expression expressions() {
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

  bool ends() const {
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
  Expression expression() {
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
    for (int open = 0; !is(Token::Kind::end); next()) {
      if (open == 0 && ends() && !(is(":") && in_lambda(start))) break;
      if (is("(") || is("[") || is("{")) ++open;
      if (is(")") || is("]") || is("}")) --open;
    }
    const std::size_t to = at_ > start ? tokens_[at_ - 1].stop : from;
    if (at_ == start)
      fail(here().text.empty() ? "a value is missing"
                               : fmt::format("'{}' stands where a value is expected", here().text));
    return {Kind::other, between(from, to), from, {}, {}};
  }

  // True if the ':' here is the one of a lambda that started at `start`.
  bool in_lambda(std::size_t start) const {
    int lambdas = 0;
    for (std::size_t i = start; i < at_; ++i) {
      if (tokens_[i].kind == Token::Kind::name && tokens_[i].text == "lambda") ++lambdas;
      if (tokens_[i].kind == Token::Kind::symbol && tokens_[i].text == ":") --lambdas;
    }
    return lambdas > 0;
  }

  Expression joined(Expression left, std::string symbol, Expression right) {
    Expression both{Kind::product, std::move(symbol), left.at, {}, {}};
    if (left.kind == Kind::other || right.kind == Kind::other) both.kind = Kind::other;
    both.parts.push_back(std::move(left));
    both.parts.push_back(std::move(right));
    return both;
  }

  Expression sum() {
    Expression left = product();
    while (is("+") || is("-")) {
      std::string symbol = here().text;
      next();
      left = joined(std::move(left), std::move(symbol), product());
    }
    return left;
  }

  Expression product() {
    Expression left = power();
    while (is("*") || is("/") || is("//") || is("%")) {
      std::string symbol = here().text;
      next();
      left = joined(std::move(left), std::move(symbol), power());
    }
    return left;
  }

  Expression power() {
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
  Expression primary() {
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
        item.parts.push_back(expressions());
        if (is(":")) item.kind = Kind::other;  // a slice
        while (!is("]") && !is(Token::Kind::end)) next();
        take("]");
        one = std::move(item);
      } else {
        break;
      }
    }
    return one;
  }

  Expression call(Expression callee) {
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
  Expression elements(Kind kind, std::string_view close) {
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
  Expression strings() {
    Expression one{Kind::string, "", here().at, {}, {}};
    for (; is(Token::Kind::string) || is(Token::Kind::pattern); next()) {
      if (is(Token::Kind::pattern)) one.kind = Kind::other;
      one.text += here().text;
    }
    return one;
  }

  Expression atom() {
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

  std::string_view text_;
  SyntaxProblem& problem_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<Statement> parse(std::string_view text, SyntaxProblem& problem) {
  return Parser(text, problem).run();
}

}  // namespace sim::python
