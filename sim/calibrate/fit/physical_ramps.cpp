#include "sim/calibrate/fit/physical_ramps.h"

#include <algorithm>
#include <cmath>

namespace sim::calibrate {

void make_physical(input::ProfileDraft& draft) {
  constexpr double four_digits = 0.9995;  // a draft rounds values, up by 5e-4 at most
  for (const char* ramp : {"ring_one_node", "ring_many_nodes", "tree_many_nodes", "nvls_one_node",
                           "nvls_many_nodes", "send_one_node", "send_many_nodes"}) {
    const std::string base = std::string("communication.achieved.") + ramp + "[*].";
    const std::vector<std::string> bytes = draft.paths(base + "bytes"),
                                   fractions = draft.paths(base + "fraction");
    for (std::size_t i = 1; i < fractions.size(); ++i) {
      const double before = draft.get(fractions[i - 1]);
      const double most =
          before * (1 + std::log(draft.get(bytes[i]) / draft.get(bytes[i - 1]))) * four_digits;
      const double now = draft.get(fractions[i]);
      const double physical = std::clamp(now, before, std::max(before, std::min(1.0, most)));
      if (physical != now) draft.set(fractions[i], physical);
    }
  }
}

}  // namespace sim::calibrate
