#include "sim/job/schedule/vocabulary/vocabulary.h"

#include <algorithm>
#include <vector>

namespace sim::schedule {
namespace {

// The place of S in a stage's period of F and B. All stages run S at the same time, so its place in
// the period moves from stage to stage.
struct Places {
  std::vector<bool> before_forward;  // B S F, else B F S
  std::vector<int> ahead;            // output passes before the first B
};

// From the last stage down, S moves back by a forward pass until the shift exceeds a backward pass;
// then it changes its place [vocab_parallel_schedule.py: is_bsf, num_warmup_s_pass].
Places places(const PipelineShape& shape) {
  const double f = shape.times.forward;
  const double b = std::max(shape.times.backward + shape.times.weight, f);
  const auto p = static_cast<std::size_t>(shape.stages);
  Places from_last{{true}, {0}};
  double offset = 0;
  while (from_last.before_forward.size() < p) {
    if (offset - f >= -b) {
      offset -= f;
    } else {
      from_last.before_forward.push_back(false);
      offset += b - f;
    }
    from_last.before_forward.push_back(true);
  }
  from_last.before_forward.resize(p);
  for (std::size_t i = 1; i < p; ++i) {
    const bool same = !from_last.before_forward[i - 1] && from_last.before_forward[i];
    from_last.ahead.push_back(from_last.ahead.back() + (same ? 0 : 1));
  }
  std::reverse(from_last.before_forward.begin(), from_last.before_forward.end());
  std::ranges::reverse(from_last.ahead);
  return from_last;
}

class Writer {
 public:
  explicit Writer(int microbatches) : m_(microbatches) {}

  void forward() {
    if (forwards_ < m_) order_.push_back({Pass::forward, forwards_++});
  }
  void backward() { order_.push_back({Pass::backward, backwards_++}); }
  // S of the next microbatch and T of the previous one.
  void output() {
    if (outputs_ < m_) order_.push_back({Pass::output, outputs_});
    if (outputs_ > 0 && outputs_ <= m_) order_.push_back({Pass::output_gradient, outputs_ - 1});
    if (outputs_ <= m_) ++outputs_;
  }
  int backwards() const { return backwards_; }
  int outputs() const { return outputs_; }
  Order order() { return std::move(order_); }

 private:
  int m_;
  int forwards_ = 0, backwards_ = 0, outputs_ = 0;
  Order order_;
};

}  // namespace

Order vocabulary_order(const PipelineShape& shape, int stage, int extra) {
  const int m = shape.microbatches;
  const Places at = places(shape);
  const auto s = static_cast<std::size_t>(stage);
  Writer w(m);
  for (int i = 0; i < shape.stages - stage; ++i) w.forward();
  for (int i = 0; i < extra; ++i) {
    w.output();
    w.forward();
  }
  for (int i = 0; i < at.ahead[s]; ++i) w.output();
  while (w.backwards() < m) {
    // With two barriers the gradients of this microbatch come before its backward pass.
    if (w.outputs() < w.backwards() + extra) w.output();
    w.backward();
    if (at.before_forward[s]) w.output();
    w.forward();
    if (!at.before_forward[s]) w.output();
  }
  while (w.outputs() <= m) w.output();
  return w.order();
}

}  // namespace sim::schedule
