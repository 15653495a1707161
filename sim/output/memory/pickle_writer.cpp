#include "sim/output/memory/pickle_writer.h"

#include <bit>
#include <cassert>
#include <functional>
#include <limits>

namespace sim::output {

namespace {
// Names as in CPython's pickletools.
constexpr char proto = '\x80', stop = '.', mark = '(';
constexpr char empty_list = ']', appends = 'e', empty_dict = '}', setitems = 'u';
constexpr char binint = 'J', binint1 = 'K', binint2 = 'M', long1 = '\x8a', binfloat = 'G';
constexpr char newtrue = '\x88', newfalse = '\x89', tuple2 = '\x86';
constexpr char short_binunicode = '\x8c', binunicode = 'X';
constexpr char memoize = '\x94', binget = 'h', long_binget = 'j';
}  // namespace

PickleWriter::PickleWriter() {
  out_ += proto;
  out_ += '\x04';
}

void PickleWriter::little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
}

void PickleWriter::text(std::string_view value) {
  if (const auto there = texts_.find(value); there != texts_.end()) {
    recall(there->second);
    return;
  }
  assert(value.size() <= std::numeric_limits<std::uint32_t>::max());
  const bool brief = value.size() < 256;
  out_ += brief ? short_binunicode : binunicode;
  little_endian(value.size(), brief ? 1 : 4);
  out_ += value;
  texts_.emplace(value, remember());
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0 && value < 256) {
    out_ += binint1;
    little_endian(static_cast<std::uint64_t>(value), 1);
  } else if (value >= 0 && value < 65536) {
    out_ += binint2;
    little_endian(static_cast<std::uint64_t>(value), 2);
  } else if (value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max()) {
    out_ += binint;
    little_endian(static_cast<std::uint64_t>(value), 4);
  } else {
    // The fewest bytes for its two's complement.
    int bytes = 8;
    while (bytes > 1 && value >> (8 * bytes - 9) == (value < 0 ? -1 : 0)) --bytes;
    if (value >> (8 * bytes - 1) != (value < 0 ? -1 : 0)) ++bytes;
    out_ += long1;
    little_endian(static_cast<std::uint64_t>(bytes), 1);
    little_endian(static_cast<std::uint64_t>(value), bytes);
  }
}

void PickleWriter::real(double value) {
  out_ += binfloat;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int i = 7; i >= 0; --i) out_ += static_cast<char>(bits >> (8 * i) & 0xff);
}

void PickleWriter::boolean(bool value) {
  out_ += value ? newtrue : newfalse;
}

void PickleWriter::pair(std::int64_t first, std::int64_t second) {
  integer(first);
  integer(second);
  out_ += tuple2;
}

void PickleWriter::begin_list() {
  out_ += empty_list;
  out_ += mark;
}

void PickleWriter::end_list() {
  out_ += appends;
}

void PickleWriter::begin_dict() {
  out_ += empty_dict;
  out_ += mark;
}

void PickleWriter::end_dict() {
  out_ += setitems;
}

std::int64_t PickleWriter::remember() {
  out_ += memoize;
  return memoised_++;
}

void PickleWriter::recall(std::int64_t number) {
  assert(number < memoised_);
  const bool brief = number < 256;
  out_ += brief ? binget : long_binget;
  little_endian(static_cast<std::uint64_t>(number), brief ? 1 : 4);
}

std::string PickleWriter::finish() {
  out_ += stop;
  return std::move(out_);
}

}  // namespace sim::output
