// loaders.cpp — fuzzes what makes clusters, profiles, campaigns, failures, variants, residuals,
// searches, grids, drafts and rates out of files: the rules that join fields. The first byte says
// which.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "input_file.h"
#include "sim/allocator/options.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/cluster/node_rates.h"
#include "sim/input/plan/campaign.h"
#include "sim/input/plan/draft.h"
#include "sim/input/plan/grid.h"
#include "sim/input/plan/search.h"
#include "sim/input/plan/whatif.h"
#include "sim/input/profile/profile.h"
#include "sim/input/profile/residuals.h"

namespace {

// A problem is said, or there is none.
template <class T>
void check(const sim::Result<T>& result) {
  if (!result && result.errors().empty()) __builtin_trap();
}

// The first points too: a point is made only when it is asked for.
sim::Result<sim::input::Grid> grid(const std::string& path) {
  auto loaded = sim::input::load_grid(path);
  for (std::size_t i = 0; loaded && i < std::min<std::size_t>(loaded->size(), 3); ++i)
    loaded->point(i);
  return loaded;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sim::input;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const fuzz::InputFile file(data + 1, size - 1);
  switch (data[0]) {
    case 'c':
      check(parse_cluster(text, "input"));
      break;
    case 'n':
      check(parse_node_rates(text, "input"));
      break;
    case 'o':
      check(load_profile(file.path()));
      break;
    case 'l':
      check(load_campaign(file.path()));
      break;
    case 't':
      check(load_failures(file.path()));
      break;
    case 'w':
      check(load_whatif(file.path()));
      break;
    case 'r':
      check(load_residuals(file.path()));
      break;
    case 'v':
      check(parse_vary(text));
      break;
    case 's':
      check(load_search(file.path()));
      break;
    case 'd':
      check(read_draft(text, "input"));
      break;
    case 'g':
      check(grid(file.path()));
      break;
    default:
      check(sim::allocator::parse_options(text));
      break;
  }
  return 0;
}
