// calibrate_readers.cpp — fuzzes every reader of measurements: bytes of any kind, through gzip, tar
// and the catalog.
#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/calibrate/readers/packed_bytes.h"
#include "sim/calibrate/readers/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sim::calibrate;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto plain = unpacked(bytes, "input");
  if (!plain) return 0;
  const auto check = [](const auto& read) {
    if (!read) return;
    for (const KernelSample& sample : read->measurements.kernels)
      if (!(sample.seconds > 0) || sample.operations.empty()) __builtin_trap();
    for (const CollectiveSample& sample : read->measurements.collectives)
      if (!(sample.seconds > 0) || sample.bytes.n <= 0 || sample.ranks < 2) __builtin_trap();
  };
  check(read_bytes(*plain, "input"));
  for (const Member& file : members(*plain)) check(read_bytes(file.bytes, "input"));
  return 0;
}
