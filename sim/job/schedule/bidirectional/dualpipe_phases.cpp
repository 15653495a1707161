#include "sim/job/schedule/bidirectional/dualpipe_phases.h"

#include <cstddef>
#include <utility>

namespace sim::schedule {
namespace {

class Writer {
 public:
  explicit Writer(const DualPipePhases& phases) : phases_(phases) {}

  // Chunk 0 is the chunk that the phases call F, whichever chunk of the rank it is.
  void forward(int chunk) { order_.push_back(step(Pass::forward, chunk, forward_[chunk]++)); }
  void backward(int chunk, bool keeps_weight = false) {
    const Pass pass = keeps_weight ? Pass::input : Pass::backward;
    order_.push_back(step(pass, chunk, backward_[chunk]++));
    if (keeps_weight) kept_.push_back(step(Pass::weight, chunk, order_.back().microbatch));
  }
  void weight() { order_.push_back(kept_[next_kept_++]); }
  void beside(int forward_chunk, int backward_chunk, bool joined = true) {
    forward(forward_chunk);
    order_.back().paired = joined;
    backward(backward_chunk);
  }
  Order order() { return std::move(order_); }

 private:
  ScheduledPass step(Pass pass, int chunk, int microbatch) const {
    const int own = chunk ^ phases_.first_chunk;
    const bool again = pass == Pass::weight;  // its microbatch has a number already
    return {pass, again ? microbatch : microbatch + phases_.first_of[own], own};
  }

  const DualPipePhases& phases_;
  int forward_[2] = {}, backward_[2] = {};
  Order order_, kept_;
  std::size_t next_kept_ = 0;
};

}  // namespace

Order dualpipe_order(const DualPipePhases& phases) {
  const int r = phases.rank, rest = phases.ranks - r - 1;
  Writer w(phases);
  for (int i = 0; i < 2 * rest; ++i) w.forward(0);
  for (int i = 0; i < r + 1; ++i) {
    w.forward(0);
    w.forward(1);
  }
  for (int i = 0; i < rest; ++i) {
    w.backward(1, true);
    w.weight();
    w.forward(1);
  }
  for (int i = 0; i < phases.microbatches - 2 * phases.ranks + r + 1; ++i) {
    w.beside(0, 1, i > 0 || phases.joins_all);
    w.beside(1, 0);
  }
  for (int i = 0; i < rest; ++i) {
    w.backward(1);
    w.beside(1, 0);
  }
  const int middle = (r + 1) / 2;  // on an even rank the second chunk's pass is still whole there
  for (int i = 0; i < r + 1; ++i) {
    w.backward(1, i > middle || (i == middle && r % 2 == 1));
    w.backward(0, i >= middle);
  }
  for (int i = 0; i < rest; ++i) {
    w.weight();
    w.backward(0, true);
  }
  for (int i = 0; i < r + 1; ++i) w.weight();
  return w.order();
}

}  // namespace sim::schedule
