// codec.h — loads codecs of messages by name: "zfp-8" is calibration/codecs/zfp-8.textproto of the
// repository, "mine/codec.textproto" is that file (schema codec.proto).
#pragma once

#include <string>
#include <vector>

#include "sim/collective/codec.h"
#include "sim/core/result.h"

namespace sim::config {

// The names of calibration/codecs, sorted.
std::vector<std::string> codec_names();

Result<collective::Codec> load_codec(const std::string& name);

}  // namespace sim::config
