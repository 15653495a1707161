// pickle_writer.h — writes Python pickles of plain data in protocol 4, with the same opcodes as
// CPython's pickler.
//
// Repeated text is written as a reference. Callers can share repeated lists by `remember` and
// `recall`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace sim::output {

class PickleWriter {
 public:
  PickleWriter();

  void text(std::string_view value);
  void integer(std::int64_t value);
  void real(double value);
  void boolean(bool value);
  void pair(std::int64_t first, std::int64_t second);  // a tuple of two
  // Between begin and end: values of a list; keys and values of a dict.
  void begin_list();
  void end_list();
  void begin_dict();
  void end_dict();

  // Returns a number for the last written value; and writes that value again.
  std::int64_t remember();
  void recall(std::int64_t number);

  std::string finish();

 private:
  void little_endian(std::uint64_t value, int bytes);

  std::string out_;
  std::map<std::string, std::int64_t, std::less<>> texts_;
  std::int64_t memoised_ = 0;
};

}  // namespace sim::output
