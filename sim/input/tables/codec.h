// codec.h — loads codecs of messages by name: "zfp-8" is calibration/codecs/zfp-8.textproto of the
// repository, "mine/codec.textproto" is that file (schema codec.proto).
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/cluster/collective/codec.h"

namespace sim::input {

// The names of calibration/codecs, sorted.
std::vector<std::string> codec_names();

Result<collective::Codec> load_codec(const std::string& name);

}  // namespace sim::input
