// field_access.h — reads and writes a member of a plan by its path, as in
// at<&Plan::mesh, &MeshPlan::tp>().
//
// The tables of plan fields (plan_table*.cpp) use it to fill Field::place.
#pragma once

#include <array>
#include <cassert>
#include <type_traits>

#include "sim/input/fields/fields.h"
#include "sim/model/words.h"

namespace sim::input {

// Names of an enumeration's values, in the order of the enumeration.
constexpr std::array<std::string_view, 3> names_of(program::Recompute) {
  return {"none", "selective", "full"};
}
constexpr std::array<std::string_view, 2> names_of(program::RecomputeMethod) {
  return {"uniform", "block"};
}
constexpr std::array<std::string_view, 5> names_of(program::AttentionBackend) {
  return {"flash", "cudnn", "unfused", "flash1", "triton"};
}
constexpr std::array<std::string_view, 3> names_of(program::LayerKernels) {
  return {"fused", "eager", "compiled"};
}
constexpr std::array<std::string_view, 3> names_of(program::LayerCode) {
  return {"core", "before_core", "one_function"};
}
constexpr std::array<std::string_view, 3> names_of(program::FakeQuantization) {
  return {"none", "weights", "operands"};
}
constexpr std::array<std::string_view, 4> names_of(program::Fp8Recipe) {
  return {"delayed", "tensorwise", "mxfp8", "nvfp4"};
}
constexpr std::array<std::string_view, 4> names_of(program::CrossEntropy) {
  return {"stepwise", "native", "te", "one_kernel"};
}
constexpr std::array<std::string_view, 3> names_of(program::DataParallelism) {
  return {"ddp", "fsdp1", "fsdp2"};
}
constexpr std::array<std::string_view, 3> names_of(schedule::Interleaving) {
  return {"all_forwards_first", "alternating", "whole_rounds"};
}
constexpr std::array<std::string_view, 3> names_of(program::KeptOutputs) {
  return {"no_stage", "last_stage", "every_stage"};
}
constexpr std::array<std::string_view, 4> names_of(program::Dispatcher) {
  return {"alltoall", "allgather", "alltoall_seq", "flex"};
}
constexpr std::array<std::string_view, 3> names_of(program::Routing) {
  return {"balanced", "random", "skewed"};
}
constexpr std::array<std::string_view, 4> names_of(program::LayerSplit) {
  return {"even", "padded", "weighted", "balanced"};
}
using model::names_of;  // of a network: norms, positions, activations, precision

template <class Member>
Value to_value(const Member& member) {
  if constexpr (std::is_enum_v<Member>) {
    return std::string(names_of(member)[static_cast<std::size_t>(member)]);
  } else if constexpr (std::is_same_v<Member, int>) {
    return std::int64_t{member};
  } else {
    return member;
  }
}

// Sets a member. REQUIRES: the schema allows the value.
template <class Member>
void from_value(const Value& value, Member& member) {
  if constexpr (std::is_enum_v<Member>) {
    const auto names = names_of(member);
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == std::get<std::string>(value)) member = static_cast<Member>(i);
  } else if constexpr (std::is_same_v<Member, int>) {
    member = static_cast<int>(std::get<std::int64_t>(value));
  } else {
    member = std::get<Member>(value);
  }
}

// Rows of plan_table_stack.cpp and plan_table_experts.cpp.
std::span<const Field> stack_fields();
std::span<const Field> expert_fields();

// The FieldAccess of the member that the path leads to.
template <auto... path>
constexpr FieldAccess at() {
  return {[](const program::Plan& plan) { return to_value((plan.*....*path)); },
          [](program::Plan& plan, const Value& value) { from_value(value, (plan.*....*path)); }};
}

}  // namespace sim::input
