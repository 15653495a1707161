#include "sim/memory/lane_code.h"

#include <algorithm>
#include <bit>

namespace sim::memory {
namespace {

using Kind = LaneStep::Kind;

constexpr std::int32_t never = INT32_MAX;

// Where the tensor placed at a step is released in the same period; `never` if it is not.
std::vector<std::int32_t> released_at(const LaneCode& code) {
  std::vector<std::int32_t> release(code.tensors.size(), never), result(code.steps.size(), never);
  for (std::size_t i = code.steps.size(); i-- > 0;) {
    const LaneStep& step = code.steps[i];
    if (step.tensor < 0) continue;
    const auto tensor = static_cast<std::size_t>(step.tensor);
    if (step.kind == Kind::place) {
      result[i] = release[tensor];
    } else if (step.kind == Kind::release && step.periods == 0) {
      release[tensor] = static_cast<std::int32_t>(i);
    }
  }
  return result;
}

}  // namespace

void number_registers(LaneCode& code) {
  code.registers = 0;
  for (LaneTensor& tensor : code.tensors) {
    tensor.base = code.registers;
    tensor.mask = std::bit_ceil(static_cast<std::uint32_t>(tensor.periods) + 1) - 1;
    code.registers += tensor.mask + 1;
  }
}

void find_groups(LaneCode& code) {
  const auto count = static_cast<std::int32_t>(code.steps.size());
  const std::vector<std::int32_t> released = released_at(code);
  std::vector<std::int64_t> bytes_before(code.steps.size() + 1, 0);
  for (std::int32_t i = 0; i < count; ++i) {
    const LaneStep& step = code.steps[static_cast<std::size_t>(i)];
    const bool places = step.kind == Kind::place;
    bytes_before[static_cast<std::size_t>(i) + 1] =
        bytes_before[static_cast<std::size_t>(i)] +
        (places ? code.tensors[static_cast<std::size_t>(step.tensor)].bytes : 0);
  }
  // From the last step to the first: `wall` is the next note or placement that stays, end[i] is
  // where the group closes that begins at i.
  std::vector<std::int32_t> end(code.steps.size(), 0);
  std::int32_t wall = never;
  for (std::int32_t i = count; i-- > 0;) {
    LaneStep& step = code.steps[static_cast<std::size_t>(i)];
    if (step.kind == Kind::note) wall = i;
    if (step.kind != Kind::place) continue;
    std::int32_t close = released[static_cast<std::size_t>(i)];
    if (close > wall || close == never) {
      wall = i;
      continue;
    }
    for (std::int32_t k = i + 1; k < close; ++k) {
      if (code.steps[static_cast<std::size_t>(k)].kind != Kind::place) continue;
      close = std::max(close, end[static_cast<std::size_t>(k)] - 1);
      k = end[static_cast<std::size_t>(k)] - 1;
    }
    end[static_cast<std::size_t>(i)] = close + 1;
    LaneGroup group;
    group.end = close + 1;
    group.bytes =
        bytes_before[static_cast<std::size_t>(close) + 1] - bytes_before[static_cast<std::size_t>(i)];
    step.group = static_cast<std::int32_t>(code.groups.size());
    code.groups.push_back(group);
  }
  // What of others falls into a group.
  std::vector<std::int32_t> placed(code.tensors.size(), -1);
  for (std::int32_t i = 0; i < count; ++i) {
    const LaneStep& first = code.steps[static_cast<std::size_t>(i)];
    if (first.kind == Kind::place) placed[static_cast<std::size_t>(first.tensor)] = i;
    if (first.group < 0) continue;
    LaneGroup& group = code.groups[static_cast<std::size_t>(first.group)];
    group.others = static_cast<std::int32_t>(code.others.size());
    for (std::int32_t k = i + 1; k < group.end; ++k) {
      const LaneStep& step = code.steps[static_cast<std::size_t>(k)];
      if (step.kind == Kind::place) continue;
      const std::int32_t place = placed[static_cast<std::size_t>(step.tensor)];
      // Tensors that are placed behind i belong to the group.
      const bool own = step.periods == 0 && (place < 0 || place >= i);
      if (!own) code.others.push_back(k);
    }
    group.others_end = static_cast<std::int32_t>(code.others.size());
  }
}

std::int64_t most_placed(const LaneCode& code) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < code.steps.size(); ++i) {
    if (code.steps[i].group < 0) continue;
    const LaneGroup& group = code.groups[static_cast<std::size_t>(code.steps[i].group)];
    const auto begin = code.steps.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end = code.steps.begin() + group.end;
    most = std::max<std::int64_t>(
        most, std::count_if(begin, end, [](const auto& s) { return s.kind == Kind::place; }));
    i = static_cast<std::size_t>(group.end) - 1;  // those inside are smaller
  }
  return most;
}

}  // namespace sim::memory
