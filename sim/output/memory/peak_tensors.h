// peak_tensors.h — the tensors of a rank class at its peak, or when it runs out of memory: bytes
// and count by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/engine/observer.h"

namespace sim::output {

struct HeldTensors {
  program::Category category = program::Category::other;
  std::string label;
  std::int64_t count = 0;
  Bytes bytes{};
};

class PeakTensors final : public engine::Observer {
 public:
  void operation(int, program::Stream, std::string_view, const engine::ProgramLocation&, Time, Time,
                 Time) override {}
  void memory(const engine::MemoryChange& change) override;
  void memory_state(const engine::MemoryState& state) override;

  // Tensors at the peak, most bytes first. If the class ran out of memory: at that time.
  std::vector<HeldTensors> of(std::size_t rank_class) const;

 private:
  using Key = std::pair<program::Category, std::string>;
  struct Amount {
    std::int64_t count = 0, bytes = 0;
  };
  using Amounts = std::map<Key, Amount>;
  struct Class {
    Amounts held, peak;
    std::unordered_map<std::int64_t, Amounts::iterator> at;  // by address; never iterated
    std::int64_t allocated = 0, most = 0;
    bool rising = false;  // `held` is the peak so far and not yet copied
    bool closed = false;
  };

  static void keep(Class& own);

  std::vector<Class> classes_;
};

}  // namespace sim::output
