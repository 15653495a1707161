// expressions.h — parses one Python expression at a place of a list of tokens.
//
// syntax.cpp derives its parser of statements from it. An expression of another kind than those of
// syntax.h becomes one node with its text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/input/launch/python/syntax.h"

namespace sim::python {

class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, SyntaxProblem& problem)
      : text_(text), problem_(problem), tokens_(tokens_of(text, problem)) {}

 protected:
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

  // Several with commas between are a tuple.
  Expression expressions();
  Expression expression();

  std::string_view text_;
  SyntaxProblem& problem_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;

 private:
  using Kind = Expression::Kind;

  bool ends() const;
  bool has_slice() const;
  Expression joined(Expression left, std::string symbol, Expression right);
  Expression sum();
  Expression product();
  Expression power();
  Expression primary();
  Expression call(Expression callee);
  Expression elements(Kind kind, std::string_view close);
  Expression strings();
  Expression atom();
};

}  // namespace sim::python
