#include "sim/answer/priced.h"

namespace sim::answer {

engine::Times price_of(const program::Job& job, const Site& site) {
  return engine::price(job, site.machine.gpu, site.profile.device, *site.network, site.others);
}

engine::Memory memory_of(const program::Job& job, const program::Plan& plan, const Site& site) {
  return engine::outside_memory(job, plan, site.machine.gpu, site.profile.device, *site.network,
                                site.others);
}

}  // namespace sim::answer
