#include "sim/allocator/sub_pools/sub_pool_code.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace sim::allocator {
namespace {

using Kind = SubPoolStep::Kind;

constexpr std::int32_t never = INT32_MAX;

// By step that allocates: the step of the same cycle that releases the tensor; `never` if none
// does.
std::vector<std::int32_t> released_at(const SubPoolCode& code) {
  std::vector<std::int32_t> release(code.tensors.size(), never), result(code.steps.size(), never);
  for (std::size_t i = code.steps.size(); i-- > 0;) {
    const SubPoolStep& step = code.steps[i];
    if (step.tensor < 0) continue;
    const auto tensor = static_cast<std::size_t>(step.tensor);
    if (step.kind == Kind::place) {
      result[i] = release[tensor];
    } else if (step.kind == Kind::release && step.cycles == 0) {
      release[tensor] = static_cast<std::int32_t>(i);
    }
  }
  return result;
}

// The distinct sizes of the tensors of a code (`all`, largest first), and the index of each
// tensor's size (`of`).
struct Sizes {
  explicit Sizes(const SubPoolCode& code) : of(code.tensors.size()) {
    for (const SubPoolTensor& tensor : code.tensors) all.push_back(tensor.bytes);
    std::ranges::sort(all, std::greater());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (std::size_t t = 0; t < of.size(); ++t)
      of[t] = static_cast<std::size_t>(
          std::ranges::lower_bound(all, code.tensors[t].bytes, std::greater()) - all.begin());
    live.assign(all.size(), -1);
  }
  std::vector<std::int64_t> all;
  std::vector<std::size_t> of;
  std::vector<std::int32_t> live;  // scratch space of describe(), by size
};

// Describes the group of the steps [begin, end). `placed` has the step that allocates each tensor
// of the cycle.
SubPoolGroup describe(SubPoolCode& code, std::int32_t begin, std::int32_t end,
                      const std::vector<std::int32_t>& placed, Sizes& sizes) {
  SubPoolGroup group;
  group.end = end;
  group.others = static_cast<std::int32_t>(code.others.size());
  std::int32_t live = 0;
  std::size_t smallest = 0;
  for (std::int32_t k = begin; k < end; ++k) {
    const SubPoolStep& step = code.steps[static_cast<std::size_t>(k)];
    const auto tensor = static_cast<std::size_t>(step.tensor);
    if (step.kind == Kind::place) {
      const std::size_t size = sizes.of[tensor];
      sizes.live[size] = std::max(sizes.live[size], live++);
      smallest = std::max(smallest, size);
      group.bytes += sizes.all[size];
      group.largest = std::max(group.largest, sizes.all[size]);
    } else if (step.cycles == 0 && placed[tensor] >= begin && placed[tensor] < k) {
      --live;
    } else {
      code.others.push_back(k);
    }
  }
  group.others_end = static_cast<std::int32_t>(code.others.size());
  // A need covers all smaller sizes that have at most the same number of live tensors.
  group.needs = static_cast<std::int32_t>(code.needs.size());
  std::int32_t most = -1;
  for (std::size_t s = 0; s <= smallest; ++s) {
    const std::int32_t here = std::exchange(sizes.live[s], -1);
    if (here <= most) continue;
    most = here;
    code.needs.push_back({sizes.all[s], here});
  }
  group.needs_end = static_cast<std::int32_t>(code.needs.size());
  return group;
}

void number_registers(SubPoolCode& code) {
  code.registers = 0;
  for (SubPoolTensor& tensor : code.tensors) {
    tensor.base = code.registers;
    tensor.mask = std::bit_ceil(static_cast<std::uint32_t>(tensor.cycles) + 1) - 1;
    code.registers += tensor.mask + 1;
  }
}

void find_groups(SubPoolCode& code) {
  constexpr std::int32_t is_short = 48, apart = 32;  // steps
  const auto count = static_cast<std::int32_t>(code.steps.size());
  const std::vector<std::int32_t> released = released_at(code);
  // From the last step to the first. `wall` is the next step that no group may span: a note, or the
  // allocation of a tensor that stays. end[i] is the end of the group that begins at i; 0: none
  // does.
  std::vector<std::int32_t> end(code.steps.size(), 0), placed(code.tensors.size(), -1);
  std::int32_t wall = never;
  for (std::int32_t i = count; i-- > 0;) {
    const SubPoolStep& step = code.steps[static_cast<std::size_t>(i)];
    if (step.kind == Kind::note) wall = i;
    if (step.kind != Kind::place) continue;
    placed[static_cast<std::size_t>(step.tensor)] = i;
    std::int32_t close = released[static_cast<std::size_t>(i)];
    if (close > wall || close == never) {
      wall = i;
      continue;
    }
    for (std::int32_t k = i + 1; k < close; ++k) {
      if (code.steps[static_cast<std::size_t>(k)].kind != Kind::place) continue;
      k = end[static_cast<std::size_t>(k)] - 1;
      close = std::max(close, k);
    }
    end[static_cast<std::size_t>(i)] = close + 1;
  }
  Sizes sizes(code);
  std::int32_t long_end = 0, next_long = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t close = end[static_cast<std::size_t>(i)];
    if (close == 0) continue;
    if (close - i > is_short) {
      if (close <= long_end && i < next_long) continue;
      long_end = close;
      next_long = i + std::max(apart, (close - i) / apart);
    }
    code.steps[static_cast<std::size_t>(i)].group = static_cast<std::int32_t>(code.groups.size());
    code.groups.push_back(describe(code, i, close, placed, sizes));
  }
}

}  // namespace

void prepare(SubPoolCode& code) {
  number_registers(code);
  find_groups(code);
}

}  // namespace sim::allocator
