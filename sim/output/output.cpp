#include "sim/output/output.h"

#include <cstring>

namespace sim::output {

namespace {
constexpr std::size_t buffer_bytes = std::size_t{1} << 18;
}

std::string write_all(int descriptor, std::string_view bytes) {
  const int error = sim::write_all(descriptor, bytes);
  return error == 0 ? "" : std::strerror(error);
}

std::string write_file(const std::string& path, std::string_view text) {
  return write_whole(path, text);
}

std::string Stream::open(const std::string& path) {
  return file_.open(path);
}

void Stream::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= buffer_bytes) flush();
}

void Stream::flush() {
  file_.write(buffer_);
  buffer_.clear();
}

std::string Stream::close() {
  flush();
  return file_.commit();
}

}  // namespace sim::output
