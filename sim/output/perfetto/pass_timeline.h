// pass_timeline.h — times of each pass of the last step for every rank class: the data of a Gantt
// chart.
//
// A pass lasts from the start of its first operation on the compute stream to the end of its last
// one, with waiting in between. Work of the step before the first pass and after the last pass
// counts as two passes.
#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "sim/engine/observer.h"

namespace sim::output {

class PassTimeline final : public engine::Observer {
 public:
  struct Span {
    program::PassKind pass = program::PassKind::forward;
    int microbatch = -1, chunk = 0;
    Time begin{}, end{};
  };

  void operation(int rank_class, program::Stream stream, std::string_view name,
                 const engine::ProgramLocation& place, Time start, Time waited_until,
                 Time end) override;
  void memory(const engine::MemoryChange&) override {}

  // The passes of the class's last step in order of their begin; empty for a class without one.
  std::vector<Span> of(std::size_t rank_class) const;

  // Time in which a stream other than compute is busy. A collective begins when its last rank has
  // arrived.
  struct Busy {
    Time begin{}, end{};
  };
  // The first `busy_most` of each stream in the class's last step; overlapping ones are joined.
  static constexpr std::size_t busy_most = 16'384;
  using Streams = std::map<program::Stream, std::vector<Busy>>;
  Streams streams_of(std::size_t rank_class) const;

 private:
  using Key = std::tuple<int, program::PassKind, int, int>;  // microbatch, pass, chunk, turn
  struct Class {
    int step = -1;
    int turn = 0;            // blocks of work outside of any microbatch so far
    bool in_a_pass = false;  // the last operation belonged to a microbatch
    std::map<Key, Span> spans;
    Streams streams;
  };
  std::vector<Class> classes_;
};

}  // namespace sim::output
