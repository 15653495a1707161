#include "sim/engine/rank/tensor_peak.h"

#include <algorithm>

#include "sim/program/ir/parameter.h"

namespace sim::engine {

using program::Instruction;
using program::Op;

namespace {

// One memory operation of a block.
struct MemoryStep {
  Op op;
  program::Space space, to_space;
  std::uint32_t index, to_index;
  std::int64_t bytes;
};

constexpr std::int64_t allocator_unit = 512;  // of PyTorch's caching allocator

class Tensors {
 public:
  explicit Tensors(const program::Program& program)
      : program_(program),
        frames_(program.fixed_slots + program.local_slots),
        slots_(frames_ + std::size_t{program.frames} * program.frame_slots) {
    for (const program::Block& block : program.blocks) {
      std::vector<MemoryStep>& steps = steps_.emplace_back();
      for (const Instruction& i : block.code) {
        if (i.op == Op::alloc)
          steps.push_back(
              {i.op, i.space, {}, i.index, 0, program::round_up(i.value, allocator_unit)});
        if (i.op == Op::free) steps.push_back({i.op, i.space, {}, i.index, 0, 0});
        if (i.op == Op::move) {
          const program::Slot to = program::destination(i);
          steps.push_back({i.op, i.space, to.space, i.index, to.index, 0});
        }
      }
    }
  }

  void run(const std::vector<program::Pass>& passes, std::size_t most) {
    run(passes, 0, std::min(most, passes.size()));
  }

  void run(const std::vector<program::Pass>& passes, std::size_t from, std::size_t to) {
    for (std::size_t p = from; p < to; ++p) {
      const std::size_t frame = frames_ + std::size_t{passes[p].frame} * program_.frame_slots;
      for (const program::Call& call : program_.templates[passes[p].pattern].calls)
        for (const MemoryStep& step : steps_[call.block]) run(step, frame, frame + call.layer_base);
    }
  }

  // Runs a step to its end. The passes between two cuts repeat, so once the tensors at a cut equal
  // those at the cut before, the peak is known up to the last cut.
  void run_step() {
    const std::vector<std::uint32_t>& cuts = program_.cuts;
    std::size_t at = 0;
    std::vector<std::int64_t> before, now;
    for (std::size_t k = 0; k < cuts.size(); ++k) {
      run_and_follow(at, cuts[k]);
      at = cuts[k];
      save(now);
      if (now == before) {
        at = cuts.back();
        move_frames(cuts[k], at);
        break;
      }
      before.swap(now);
    }
    run(program_.step, at, program_.step.size());
  }

  std::int64_t peak() const { return peak_; }
  void forget_peak(std::int64_t before) { peak_ = before; }

 private:
  void follow(std::size_t pass) {
    const program::Pass& p = program_.step[pass];
    if (p.acquires) live_.push_back(p.frame);
    if (p.releases) std::erase(live_, p.frame);
  }

  void run_and_follow(std::size_t from, std::size_t to) {
    run(program_.step, from, to);
    for (std::size_t p = from; p < to; ++p) follow(p);
  }

  std::int64_t* frame(std::uint32_t number) {
    return slots_.data() + frames_ + std::size_t{number} * program_.frame_slots;
  }

  // Everything that decides later sums. Frames count by age.
  void save(std::vector<std::int64_t>& out) {
    out.assign(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(frames_));
    for (const std::uint32_t number : live_)
      out.insert(out.end(), frame(number), frame(number) + program_.frame_slots);
  }

  // The tensors of the frames at pass `from` become those of the frames at pass `to`, by age.
  void move_frames(std::size_t from, std::size_t to) {
    std::vector<std::int64_t> held;
    for (const std::uint32_t number : live_) {
      held.insert(held.end(), frame(number), frame(number) + program_.frame_slots);
      std::fill_n(frame(number), program_.frame_slots, 0);
    }
    for (std::size_t p = from; p < to; ++p) follow(p);
    auto next = held.begin();
    for (const std::uint32_t number : live_) {
      std::copy_n(next, program_.frame_slots, frame(number));
      next += static_cast<std::ptrdiff_t>(program_.frame_slots);
    }
  }

  std::int64_t& slot(program::Space space, std::uint32_t index, std::size_t frame,
                     std::size_t layer) {
    switch (space) {
      case program::Space::fixed:
        return slots_[index];
      case program::Space::local:
        return slots_[program_.fixed_slots + index];
      case program::Space::microbatch:
        return slots_[frame + index];
      case program::Space::layer:
        break;
    }
    return slots_[layer + index];
  }

  void run(const MemoryStep& step, std::size_t frame, std::size_t layer) {
    std::int64_t& own = slot(step.space, step.index, frame, layer);
    if (step.op == Op::alloc) {
      held_ += step.bytes - own;
      own = step.bytes;
      peak_ = std::max(peak_, held_);
    } else if (step.op == Op::free) {
      held_ -= own;
      own = 0;
    } else {
      const std::int64_t bytes = own;
      own = 0;
      slot(step.to_space, step.to_index, frame, layer) = bytes;
    }
  }

  const program::Program& program_;
  std::size_t frames_;
  std::vector<std::int64_t> slots_;
  std::vector<std::vector<MemoryStep>> steps_;  // by block
  std::vector<std::uint32_t> live_;             // frames in use, oldest first
  std::int64_t held_ = 0, peak_ = 0;
};

}  // namespace

std::int64_t bytes_of_tensors(const program::Program& program) {
  Tensors tensors(program);
  tensors.run(program.setup, program.setup.size());
  tensors.run(program.first_step, program.first_step.size());
  tensors.run(program.step, program.first_step.size());
  return tensors.peak();
}

std::int64_t peak_of_tensors(const program::Program& program) {
  Tensors tensors(program);
  tensors.run(program.setup, program.setup.size());
  tensors.run(program.first_step, program.first_step.size());
  tensors.run_step();
  return tensors.peak();
}

std::int64_t bytes_until_backward(const program::Program& program) {
  const auto until = [&](const std::vector<program::Pass>& passes) {
    const auto first = std::ranges::find_if(passes, [&](const program::Pass& pass) {
      return program.templates[pass.pattern].kind == program::PassKind::backward;
    });
    return static_cast<std::size_t>(first - passes.begin()) + (first != passes.end());
  };
  Tensors tensors(program);
  tensors.run(program.setup, program.setup.size());
  const std::size_t warm_up = until(program.first_step);
  tensors.run(program.first_step, warm_up);
  const std::int64_t peak = tensors.peak();
  tensors.run(program.first_step, warm_up, program.first_step.size());
  tensors.forget_peak(peak);
  tensors.run(program.step, until(program.step));
  return tensors.peak();
}

}  // namespace sim::engine
