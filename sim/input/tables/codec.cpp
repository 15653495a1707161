#include "sim/input/tables/codec.h"

#include <fmt/format.h>

#include <filesystem>

#include "sim/base/machine_error.h"
#include "sim/base/text.h"
#include "sim/input/schema/codec.pb.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/rules.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

namespace fs = std::filesystem;
namespace v1 = rehearse::v1;

fs::path folder() {
  return fs::path(repository_root()) / "calibration" / "codecs";
}

collective::Codec codec_of(const v1::Codec& from) {
  collective::Codec to;
  to.ratio = from.ratio();
  if (from.has_kernel()) to.kernel = to_duration(from.kernel());
  if (from.has_least()) to.least = to_bytes(from.least());
  for (const v1::CodecRate& rate : from.rates())
    to.rates.push_back({to_bandwidth(rate.memory_bandwidth()), to_bandwidth(rate.compress()),
                        to_bandwidth(rate.decompress())});
  return to;
}

}  // namespace

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const fs::path& file : files_in(folder())) names.push_back(file.stem().string());
  return names;
}

Result<collective::Codec> load_codec(const std::string& name) {
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".textproto");
  const fs::path path = is_path ? fs::path(name) : folder() / (name + ".textproto");
  if (!is_path && !file_exists(path.string())) {
    const std::vector<std::string> names = codec_names();
    return Diagnostics{
        {"", fmt::format("there is no codec '{}'{}; calibration/codecs has: {}", name.substr(0, 80),
                         did_you_mean(name.substr(0, 80), names), fmt::join(names, ", "))}};
  }
  v1::Codec message;
  Source source(path.string());
  if (Diagnostics problems = load(source, message); !problems.empty()) return problems;
  collective::Codec codec = codec_of(message);
  codec.name = path.stem().string();
  return codec;
}

}  // namespace sim::input
