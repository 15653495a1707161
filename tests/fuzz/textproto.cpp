// textproto.cpp — fuzzes the reader of the text format with every schema: the first byte says
// which.
#include "sim/input/text/textproto.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "sim/input/schema/campaign.pb.h"
#include "sim/input/schema/cluster.pb.h"
#include "sim/input/schema/framework.pb.h"
#include "sim/input/schema/grid.pb.h"
#include "sim/input/schema/plan.pb.h"
#include "sim/input/schema/profile.pb.h"
#include "sim/input/schema/residuals.pb.h"
#include "sim/input/schema/tokenizer.pb.h"
#include "sim/input/schema/whatif.pb.h"

namespace {

using namespace rehearse::v1;

std::unique_ptr<google::protobuf::Message> message(char kind) {
  switch (kind) {
    case 'c':
      return std::make_unique<Cluster>();
    case 'f':
      return std::make_unique<Framework>();
    case 'g':
      return std::make_unique<Grid>();
    case 'l':
      return std::make_unique<Campaign>();
    case 'o':
      return std::make_unique<Profile>();
    case 'r':
      return std::make_unique<RunResiduals>();
    case 't':
      return std::make_unique<FailureTable>();
    case 'w':
      return std::make_unique<Whatif>();
    case 'z':
      return std::make_unique<Tokenizers>();
    default:
      return std::make_unique<Plan>();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (const bool json : {false, true}) {
    const auto into = message(static_cast<char>(data[0]));
    sim::input::Source source("input");
    const auto problems = json ? source.read_json(text, *into) : source.read(text, *into, {}, true);
    if (problems.size() > sim::input::max_problems * 4) __builtin_trap();
    if (problems.empty() && !source.check(*into).empty() && !json) __builtin_trap();
  }
  return 0;
}
