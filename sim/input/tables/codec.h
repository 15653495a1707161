// codec.h — loads message codecs by name: "zfp-8" is calibration/codecs/zfp-8.textproto.
//
// A plan names codecs for its messages; read_lists (resolve/plan_lists.h) loads them. A name with a
// slash or .textproto is a path. Schema: codec.proto.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/cluster/collective/codec.h"

namespace sim::input {

// All names in calibration/codecs, sorted.
std::vector<std::string> codec_names();

// The codec, with its rates in bytes per second. Error: unknown name (lists the known ones) or an
// invalid file.
Result<collective::Codec> load_codec(const std::string& name);

}  // namespace sim::input
