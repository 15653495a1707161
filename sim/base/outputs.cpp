#include "sim/base/outputs.h"

#include <sys/stat.h>

#include <vector>

namespace sim {

namespace {

struct Output {
  dev_t device;
  ino_t file;
  std::string option;
};

std::vector<Output>& outputs() {
  static std::vector<Output> all;
  return all;
}

}  // namespace

void declare_output(const std::string& path, const std::string& option) {
  struct stat state {};
  if (::stat(path.c_str(), &state) != 0 || !S_ISREG(state.st_mode)) return;
  outputs().push_back({state.st_dev, state.st_ino, option});
}

std::string output_option(const struct stat& file) {
  for (const Output& output : outputs()) {
    if (output.device == file.st_dev && output.file == file.st_ino) return output.option;
  }
  return "";
}

}  // namespace sim
