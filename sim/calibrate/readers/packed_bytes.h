// packed_bytes.h — bytes of a source, a piece at a time: a packed trace is never unpacked whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sim/base/result.h"

namespace sim::calibrate {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // The next bytes, "" at the end. They stay until the next call.
  virtual std::string_view next() = 0;
};

// Bytes that are there.
class PlainBytes final : public ByteSource {
 public:
  explicit PlainBytes(std::string_view bytes) : bytes_(bytes) {}
  std::string_view next() override {
    const std::string_view piece = bytes_.substr(0, std::size_t{1} << 18);
    bytes_.remove_prefix(piece.size());
    return piece;
  }

 private:
  std::string_view bytes_;
};

constexpr std::int64_t max_streamed_bytes = std::int64_t{1} << 36;

bool is_gzip(std::string_view bytes);

// A gzip file of one or several members, unpacked as it is read. The packed bytes outlive it.
class PackedBytes final : public ByteSource {
 public:
  explicit PackedBytes(std::string_view packed, std::int64_t limit = max_streamed_bytes);
  ~PackedBytes() override;
  std::string_view next() override;
  // The beginning, which `next` gives again. REQUIRES: nothing was read.
  std::string_view look(std::size_t most);
  const std::string& problem() const;  // why it ended early, "" if it did not

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// gzip -> plain, within the limits of reader.h; anything else as it is.
Result<std::string> unpacked(std::string bytes, const std::string& path);

}  // namespace sim::calibrate
