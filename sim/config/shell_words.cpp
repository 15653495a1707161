#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/megatron.h"

namespace sim::config {
namespace {

constexpr std::size_t max_words = 1 << 16;
constexpr std::size_t max_word = 1 << 16;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

class Shell {
 public:
  explicit Shell(std::string_view text) : text_(text) {}

  std::vector<Word> run() {
    while (at_ < text_.size() && words_.size() < max_words) {
      const char c = text_[at_];
      if (is_space(c) || separates(c)) {
        finish();
        step();
      } else if (c == '#' && !open_) {
        while (at_ < text_.size() && text_[at_] != '\n') step();
      } else {
        character(c);
      }
    }
    finish();
    return std::move(words_);
  }

 private:
  static bool separates(char c) {
    return c == '(' || c == ')' || c == ';' || c == '|' || c == '&' || c == '<' || c == '>';
  }

  void step() {
    column_ = text_[at_] == '\n' ? 1 : column_ + 1;
    line_ += text_[at_] == '\n' ? 1 : 0;
    ++at_;
  }

  void begin() {
    if (open_) return;
    open_ = true;
    word_ = Word{"", line_, column_, ""};
  }

  void add(char c) {
    begin();
    if (word_.text.size() < max_word) word_.text += c;
  }

  void character(char c) {
    if (c == '\\') {
      step();
      if (at_ >= text_.size()) return;
      if (text_[at_] == '\r') step();
      if (at_ >= text_.size()) return;
      if (text_[at_] != '\n') add(text_[at_]);
      step();
    } else if (c == '\'') {
      quoted_plain();
    } else if (c == '"') {
      quoted_expanded();
    } else if (c == '$') {
      variable();
    } else {
      add(c);
      step();
    }
  }

  void quoted_plain() {
    begin();
    step();
    while (at_ < text_.size() && text_[at_] != '\'') {
      add(text_[at_]);
      step();
    }
    if (at_ < text_.size()) step();
  }

  // In ARGS="--a 1 --b 2" the arguments are words of their own: spaces split, as they do when the
  // script uses $ARGS. What follows NAME= up to the first space stays with the name.
  void quoted_expanded() {
    begin();
    step();
    while (at_ < text_.size() && text_[at_] != '"' && words_.size() < max_words) {
      const char c = text_[at_];
      if (c == '\\') {
        character(c);
      } else if (c == '$') {
        variable();
      } else if (is_space(c)) {
        finish();
        step();
      } else {
        add(c);
        step();
      }
    }
    if (at_ < text_.size()) step();
  }

  void variable() {
    begin();
    step();
    std::string name;
    const bool braces = at_ < text_.size() && text_[at_] == '{';
    const bool computed = at_ < text_.size() && text_[at_] == '(';
    if (computed) return skip_command();
    if (braces) step();
    while (at_ < text_.size() && is_name(text_[at_])) {
      name += text_[at_];
      step();
    }
    std::string otherwise;
    bool has_otherwise = false;
    if (braces) {
      std::string rest;
      while (at_ < text_.size() && text_[at_] != '}' && text_[at_] != '\n') {
        rest += text_[at_];
        step();
      }
      if (at_ < text_.size() && text_[at_] == '}') step();
      has_otherwise = rest.starts_with(":-");
      if (has_otherwise) otherwise = rest.substr(2);
    }
    const auto known = variables_.find(name);
    if (known != variables_.end()) {
      for (const char c : known->second) add(c);
    } else if (has_otherwise) {
      for (const char c : otherwise) add(c);
    } else if (word_.unknown_variable.empty()) {
      word_.unknown_variable = name.empty() ? "$" : name;
    }
  }

  // $(...) and $((...)): a program would have to run.
  void skip_command() {
    int open = 0;
    std::string text = "$";
    do {
      if (text_[at_] == '(') ++open;
      if (text_[at_] == ')') --open;
      if (text.size() < 80) text += text_[at_];
      step();
    } while (open > 0 && at_ < text_.size());
    if (word_.unknown_variable.empty()) word_.unknown_variable = text;
  }

  void finish() {
    if (!open_) return;
    open_ = false;
    const std::size_t equals = word_.text.find('=');
    bool named = equals != std::string::npos && equals > 0 && word_.unknown_variable.empty();
    for (std::size_t i = 0; named && i < equals; ++i) named = is_name(word_.text[i]);
    if (named) variables_[word_.text.substr(0, equals)] = word_.text.substr(equals + 1);
    if (!word_.text.empty() || !word_.unknown_variable.empty()) words_.push_back(std::move(word_));
    word_ = {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
  bool open_ = false;
  Word word_;
  std::vector<Word> words_;
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace

std::vector<Word> shell_words(const std::string& text) {
  return Shell(text).run();
}

}  // namespace sim::config
