#include "sim/input/launch/python/syntax.h"

#include <fmt/format.h>

#include "sim/input/launch/python/expressions.h"

namespace sim::python {
namespace {

class Parser : ExpressionParser {
  using Kind = Expression::Kind;

 public:
  using ExpressionParser::ExpressionParser;

  std::vector<Statement> run() {
    std::vector<Statement> all;
    while (!is(Token::Kind::end) && problem_.message.empty()) statement(all);
    return all;
  }

 private:
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
    if (is_word("for") || is_word("while") || ((is_word("match") || is_word("case")) && opens()))
      return into.push_back(compound(Statement::Kind::loop));
    if (is_word("except") || is_word("else")) {  // of try, for, while
      compound(Statement::Kind::block);
      return;
    }
    simple(into);
  }

  // True if this `match` or `case` opens a block and is no name.
  bool opens() const {
    std::size_t i = at_ + 1;
    if (tokens_[i].kind <= Token::Kind::pattern) return true;
    while (tokens_[i].kind != Token::Kind::line_end && tokens_[i].kind != Token::Kind::end) ++i;
    return tokens_[i - 1].text == ":" && tokens_[i - 1].kind == Token::Kind::symbol;
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
};

}  // namespace

std::vector<Statement> parse(std::string_view text, SyntaxProblem& problem) {
  return Parser(text, problem).run();
}

}  // namespace sim::python
