#include "sim/input/launch/shell/syntax.h"

#include <algorithm>
#include <array>

namespace sim::shell {

namespace {

constexpr int max_depth = 64;

constexpr std::array<std::string_view, 9> closing = {"then", "else", "elif", "fi", "do",
                                                     "done", "esac", "}",    ")"};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Node run(bool& truncated) {
    Node all;
    while (!done()) {
      for (Node& node : list().parts) all.parts.push_back(std::move(node));
      if (!done()) word_or_operator();  // a closing word without an opening one
    }
    truncated = truncated || truncated_;
    return all;
  }

 private:
  bool done() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool next_is(std::string_view token) const { return text_.substr(at_).starts_with(token); }

  void skip_blanks() {
    while (!done()) {
      if (is_blank(peek())) {
        ++at_;
      } else if (peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        at_ += peek(1) == '\n' ? 2 : 3;
      } else if (peek() == '#') {
        while (!done() && peek() != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  // Moves past the end of the line and past the here-documents that start in it.
  void newline() { at_ = at_ == document_line_ ? after_documents_ : at_ + 1; }

  // The text after this line, up to the delimiter. Tabs may precede the delimiter (<<-).
  Raw read_document(std::string_view delimiter, bool behind_tabs) {
    const std::size_t line_end = text_.find('\n', at_);
    if (line_end == std::string_view::npos) return {};
    const std::size_t start = line_end == document_line_ ? after_documents_ : line_end + 1;
    document_line_ = line_end;
    for (std::size_t line = start; line < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', line), text_.size());
      std::string_view content = text_.substr(line, end - line);
      while (behind_tabs && content.starts_with('\t')) content.remove_prefix(1);
      if (content.ends_with('\r')) content.remove_suffix(1);
      if (content == delimiter) {
        after_documents_ = std::min(end + 1, text_.size());
        return {text_.substr(start, line - start), start};
      }
      line = end + 1;
    }
    after_documents_ = text_.size();
    return {text_.substr(std::min(start, text_.size())), start};
  }

  void skip_separators() {
    while (true) {
      skip_blanks();
      if (peek() == '\n' && !done()) {
        newline();
      } else if (peek() == '&' || (peek() == ';' && peek(1) != ';')) {
        ++at_;
      } else {
        return;
      }
    }
  }

  // The unquoted word at this position, without consuming it.
  std::string_view reserved() const {
    std::size_t end = at_;
    while (end < text_.size() && (is_name(text_[end]) || text_[end] == '[')) ++end;
    if (end == at_ && end < text_.size()) ++end;  // { } ( ) !
    const char after = end < text_.size() ? text_[end] : ' ';
    const bool whole = is_blank(after) || after == '\n' || after == ';' || after == '(' ||
                       after == ')' || after == '&' || after == '|' || peek() == ')' ||
                       peek() == '(';
    return whole ? text_.substr(at_, end - at_) : std::string_view();
  }

  bool closes() const {
    if (next_is(";;")) return true;
    const std::string_view word = reserved();
    for (const std::string_view close : closing)
      if (word == close) return true;
    return false;
  }

  Node list() {
    Node all;
    all.at = at_;
    if (++depth_ > max_depth) {
      truncated_ = true;
      at_ = text_.size();
    }
    for (skip_separators(); !done() && !closes(); skip_separators()) {
      const std::size_t before = at_;
      all.parts.push_back(and_or());
      if (at_ == before) ++at_;
    }
    --depth_;
    return all;
  }

  Node and_or() {
    Node left = pipeline();
    while (true) {
      skip_blanks();
      if (!next_is("&&") && !next_is("||")) return left;
      Node both;
      both.kind = next_is("&&") ? Node::Kind::both : Node::Kind::either;
      both.at = left.at;
      at_ += 2;
      skip_separators();
      both.parts.push_back(std::move(left));
      if (!done() && !closes()) both.parts.push_back(pipeline());
      left = std::move(both);
    }
  }

  Node pipeline() {
    Node first = command();
    skip_blanks();
    if (peek() != '|' || next_is("||")) return first;
    Node all;
    all.name = "|";
    all.at = first.at;
    all.parts.push_back(std::move(first));
    while (peek() == '|' && !next_is("||")) {
      at_ += next_is("|&") ? 2 : 1;
      skip_separators();
      if (done() || closes()) break;
      all.parts.push_back(command());
      skip_blanks();
    }
    return all;
  }

  void expect(std::string_view word) {
    skip_separators();
    if (reserved() == word) at_ += word.size();
  }

  Node command() {
    skip_blanks();
    const std::size_t at = at_;
    Node node;
    const std::string_view word = reserved();
    if (word == "!") {
      ++at_;
      node.kind = Node::Kind::negated;
      add_command(node);
    } else if (word == "if") {
      at_ += 2;
      node = branch();
    } else if (word == "for" || word == "select") {
      at_ += word.size();
      node = loop();
    } else if (word == "while" || word == "until") {
      at_ += 5;
      node = repeat(word == "until");
    } else if (word == "case") {
      at_ += 4;
      node = choice();
    } else if (word == "[[") {
      at_ += 2;
      node = conditional();
    } else if (next_is("((")) {
      const std::size_t end = skip_brackets(text_, at_);
      node.kind = Node::Kind::arithmetic;
      const std::size_t size = end - at_ >= 4 ? end - at_ - 4 : 0;
      node.words.push_back({text_.substr(at_ + 2, size), at_ + 2});
      at_ = end;
    } else if (word == "{" || word == "(") {
      ++at_;
      node = list();
      expect(word == "{" ? "}" : ")");
    } else if (const std::string name = function_name(); !name.empty()) {
      node.kind = Node::Kind::function;
      node.name = name;
      skip_separators();
      add_command(node);
    } else {
      return simple();
    }
    node.at = at;
    redirections(node);
    return node;
  }

  // Consumes `name ()` or `function name`; "" if neither is at this position.
  std::string function_name() {
    std::size_t at = at_;
    const bool keyword = reserved() == "function";
    if (keyword) {
      at += 8;
      while (at < text_.size() && is_blank(text_[at])) ++at;
    }
    const std::size_t start = at;
    while (at < text_.size() && (is_name(text_[at]) || text_[at] == '-')) ++at;
    const std::string name(text_.substr(start, at - start));
    while (at < text_.size() && is_blank(text_[at])) ++at;
    const bool brackets = text_.substr(at).starts_with("()");
    if (name.empty() || (!brackets && !keyword)) return "";
    at_ = brackets ? at + 2 : at;
    return name;
  }

  Node branch() {
    Node node;
    node.kind = Node::Kind::branch;
    while (true) {
      node.parts.push_back(list());
      expect("then");
      node.parts.push_back(list());
      if (reserved() != "elif") break;
      at_ += 4;
    }
    if (reserved() == "else") {
      at_ += 4;
      node.parts.push_back(list());
    }
    expect("fi");
    return node;
  }

  Node loop() {
    Node node;
    node.kind = Node::Kind::loop;
    skip_blanks();
    if (next_is("((")) {
      at_ = skip_brackets(text_, at_);
    } else {
      node.name = std::string(word().text);
      skip_separators();
      if (reserved() == "in") {
        at_ += 2;
        for (skip_blanks(); !done() && !ends_command(); skip_blanks()) {
          const std::size_t start = at_;
          node.words.push_back(word());
          if (at_ == start) ++at_;  // no word starts with this character: '>'
        }
      }
    }
    expect("do");
    node.parts.push_back(list());
    expect("done");
    return node;
  }

  Node repeat(bool until) {
    Node node;
    node.kind = Node::Kind::repeat;
    node.name = until ? "until" : "while";
    node.parts.push_back(list());
    expect("do");
    node.parts.push_back(list());
    expect("done");
    return node;
  }

  Node choice() {
    Node node;
    node.kind = Node::Kind::choice;
    skip_blanks();
    node.words.push_back(word());
    expect("in");
    for (skip_separators(); !done() && reserved() != "esac"; skip_separators()) {
      const std::size_t before = at_;
      if (peek() == '(') ++at_;
      std::vector<Raw> patterns;
      for (skip_blanks(); !done() && peek() != ')' && peek() != '\n'; skip_blanks()) {
        if (peek() == '|') {
          ++at_;
          continue;
        }
        const std::size_t start = at_;
        patterns.push_back(word());
        if (at_ == start) ++at_;
      }
      if (peek() == ')') ++at_;
      Node arm = list();
      arm.words = std::move(patterns);
      node.parts.push_back(std::move(arm));
      while (peek() == ';') ++at_;
      if (at_ == before) ++at_;
    }
    expect("esac");
    return node;
  }

  Node conditional() {
    Node node;
    node.kind = Node::Kind::conditional;
    for (skip_blanks(); !done() && !next_is("]]"); skip_blanks()) {
      const std::size_t start = at_;
      if (peek() == '\n') {
        newline();
        continue;
      }
      if (next_is("&&") || next_is("||")) {
        node.words.push_back({text_.substr(at_, 2), at_});
        at_ += 2;
      } else if (peek() == '(' || peek() == ')' || peek() == '<' || peek() == '>') {
        node.words.push_back({text_.substr(at_, 1), at_});
        ++at_;
      } else {
        node.words.push_back(word());
        if (at_ == start) ++at_;
      }
    }
    if (next_is("]]")) at_ += 2;
    return node;
  }

  // Adds the command that follows, unless it is nested too deep.
  void add_command(Node& node) {
    if (++depth_ < max_depth)
      node.parts.push_back(command());
    else
      truncated_ = true;
    --depth_;
  }

  bool ends_command() const {
    const char c = peek();
    return c == '\n' || c == ';' || c == '&' || c == '|' || c == ')' || c == '(';
  }

  // The length of a placeholder such as "<PATH TO DATA>"; 0 if it is a redirection.
  std::size_t placeholder() const {
    const std::size_t end = text_.find_first_of("<>\n", at_ + 1);
    if (end == std::string_view::npos || text_[end] != '>' || end < at_ + 3) return 0;
    const char after = end + 1 < text_.size() ? text_[end + 1] : ' ';
    const bool ends_word = is_blank(after) || after == '\n' || after == '"' || after == '/';
    return is_name_start(text_[at_ + 1]) && !is_blank(text_[end - 1]) && ends_word ? end + 1 - at_
                                                                                   : 0;
  }

  // Consumes one word, with its quotes and expansions; empty at an operator.
  Raw word() {
    const std::size_t start = at_;
    while (!done()) {
      const char c = peek();
      if (const std::size_t size = c == '<' ? placeholder() : 0; size > 0) {
        at_ += size;
        continue;
      }
      if (is_blank(c) || ends_command() || c == '<' || c == '>') break;
      if (c == '\\' && peek(1) == '\n') break;
      at_ = c == '\\' || c == '\'' || c == '"' || c == '`' || c == '$' ? skip_quoted(text_, at_)
                                                                       : at_ + 1;
    }
    return {text_.substr(start, at_ - start), start};
  }

  void word_or_operator() {
    const std::size_t start = at_;
    if (word().text.empty() && at_ == start) ++at_;
  }

  // Consumes an assignment (NAME=, NAME+=, NAME[index]=) with its value.
  bool assignment(Node& node) {
    std::size_t at = at_;
    if (at >= text_.size() || !is_name_start(text_[at])) return false;
    while (at < text_.size() && is_name(text_[at])) ++at;
    Assignment one;
    one.name = std::string(text_.substr(at_, at - at_));
    if (at < text_.size() && text_[at] == '[') {
      const std::size_t close = text_.find_first_of("]\n", at);
      if (close == std::string_view::npos || text_[close] != ']') return false;
      one.index = {text_.substr(at + 1, close - at - 1), at + 1};
      at = close + 1;
    }
    one.append = at < text_.size() && text_[at] == '+';
    if (one.append) ++at;
    if (at >= text_.size() || text_[at] != '=') return false;
    at_ = at + 1;
    if (peek() == '(') {
      one.array = true;
      ++at_;
      elements(one);
    } else {
      one.words.push_back(word());
    }
    node.assignments.push_back(std::move(one));
    return true;
  }

  void elements(Assignment& to) {
    while (!done() && peek() != ')') {
      const std::size_t start = at_;
      if (peek() == '\n') {
        newline();
        continue;
      }
      skip_blanks();
      if (done() || peek() == ')' || peek() == '\n') continue;
      to.words.push_back(word());
      if (at_ == start) ++at_;
      if (to.words.back().text.empty()) to.words.pop_back();
    }
    if (!done()) ++at_;
  }

  Node simple() {
    Node node;
    node.kind = Node::Kind::simple;
    node.at = at_;
    const auto declares = [&] {
      if (node.words.empty()) return true;
      const std::string_view first = node.words.front().text;
      return first == "export" || first == "declare" || first == "local" || first == "readonly" ||
             first == "typeset" || first == "env";
    };
    while (!done()) {
      skip_blanks();
      if (redirections(node)) continue;
      if (done() || ends_command()) break;
      if (declares() && assignment(node)) continue;
      const std::size_t start = at_;
      node.words.push_back(word());
      if (at_ == start) ++at_;
    }
    return node;
  }

  // Consumes a redirection: >file, 2>&1, <file, <<WORD, <<<word, >(...). False if there is none.
  bool redirections(Node& node) {
    skip_blanks();
    std::size_t at = at_;
    while (at < text_.size() && text_[at] >= '0' && text_[at] <= '9') ++at;
    if (at < text_.size() && text_[at] == '&' && text_.substr(at + 1).starts_with(">")) ++at;
    if (at >= text_.size() || (text_[at] != '<' && text_[at] != '>')) return false;
    if (text_[at_] == '<' && placeholder() > 0) return false;
    const bool writes = text_[at] == '>';
    const bool errors = text_[at_] != '1' && text_[at_] >= '0' && text_[at_] <= '9';  // 2>
    at_ = at;
    if (next_is("<<") && !next_is("<<<")) return here_document(node);
    const bool duplicates = next_is(">&") && peek(2) >= '0' && peek(2) <= '9';  // >&2
    while (peek() == '<' || peek() == '>' || peek() == '&' || (writes && peek() == '|')) ++at_;
    if (peek() == '(') {
      at_ = skip_brackets(text_, at_);
      return true;
    }
    skip_blanks();
    const Raw target = word();
    if (writes && !errors && !duplicates) node.output = target;
    return true;
  }

  bool here_document(Node& node) {
    at_ += 2;
    const bool behind_tabs = peek() == '-';
    if (behind_tabs) ++at_;
    skip_blanks();
    Raw delimiter = word();
    HereDocument document;
    if (delimiter.text.size() >= 2 &&
        (delimiter.text.front() == '\'' || delimiter.text.front() == '"')) {
      document.quoted = true;
      delimiter.text = delimiter.text.substr(1, delimiter.text.size() - 2);
    }
    document.body = read_document(delimiter.text, behind_tabs);
    node.documents.push_back(document);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t document_line_ = std::string_view::npos, after_documents_ = 0;
  int depth_ = 0;
  bool truncated_ = false;
};

}  // namespace

Node parse(std::string_view text, bool& truncated) {
  return Parser(text).run(truncated);
}

}  // namespace sim::shell
