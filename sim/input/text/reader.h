// reader.h — the recursive-descent parser of protobuf's text format, over protobuf's tokenizer.
//
// Source::read (textproto.h) creates one for each text. After an error it resumes on the next line,
// so one run reports all errors. Grammar: see textproto.h.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "sim/input/text/textproto.h"

namespace sim::input {

class Reader : private google::protobuf::io::ErrorCollector {
 public:
  using Message = google::protobuf::Message;
  using Field = google::protobuf::FieldDescriptor;
  using Token = google::protobuf::io::Tokenizer::Token;
  using TokenType = google::protobuf::io::Tokenizer::TokenType;

  Reader(Source& source, const std::string& text, std::span<const Synonym> synonyms);
  Diagnostics run(Message& message);

 private:
  void AddError(int line, int column, const std::string& message) override;
  void problem(const Token& at, std::string message);
  const Token& token() { return tokenizer_.current(); }
  bool at(std::string_view text) { return token().text == text; }
  bool at_end() { return token().type == TokenType::TYPE_END; }
  bool enough() const { return problems_.size() >= max_problems; }
  void next() { tokenizer_.Next(); }

  void fields(Message& message, std::string_view closing);
  void one_field(Message& message);
  const Field* find(const Message& message, std::string wanted) const;
  void unknown(const Message& message, const Token& name);
  void value(Message& message, const Field& field);
  bool single(Message& message, const Field& field, const Token& start);
  bool block(Message& message, const Field& field, const Token& start);
  bool text(Message& message, const Field& field, const Token& start);
  bool number(Message& message, const Field& field, const Token& start);
  std::string number_text(const Message& message, const Field& field, const Token& start,
                          bool negative);
  bool whole(Message& message, const Field& field, const Token& start, bool negative);
  bool real(Message& message, const Field& field, const Token& start, bool negative);
  bool word(Message& message, const Field& field, const Token& start);
  std::string glued(int line, int column, std::string_view ends);
  void bare(const Field& field, const Token& start);
  void skip_value();
  void skip_line(int line);
  static Source::FieldPosition place_of(const Token& token) {
    return {token.line + 1, token.column + 1, {}};
  }
  std::string place(const Token& token) const { return source_.position_text(place_of(token)); }

  Source& source_;
  std::span<const Synonym> synonyms_;
  google::protobuf::io::ArrayInputStream stream_;
  google::protobuf::io::Tokenizer tokenizer_;
  Diagnostics problems_;
  int depth_ = 0;
  Source::FieldPosition foreign_{-1, -1, {}};  // place of the last byte that is not ASCII
};

}  // namespace sim::input
