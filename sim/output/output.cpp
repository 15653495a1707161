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
  if (!is_gzip_name(path)) return write_whole(path, text);
  Stream file;
  if (std::string problem = file.open(path); !problem.empty()) return problem;
  file.write(text);
  return file.close();
}

std::string Stream::open(const std::string& path) {
  gzip_ = is_gzip_name(path) ? std::make_unique<Gzip>() : nullptr;
  return file_.open(path);
}

void Stream::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= buffer_bytes) flush();
}

void Stream::flush() {
  file_.write(gzip_ ? gzip_->add(buffer_) : buffer_);
  buffer_.clear();
}

std::string Stream::close() {
  flush();
  if (gzip_) file_.write(gzip_->finish());
  return file_.commit();
}

}  // namespace sim::output
