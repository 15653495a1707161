#include "sim/calibrate/trace/calls.h"

#include <algorithm>
#include <map>

namespace sim::calibrate {

namespace {

bool has(const MeasuredKernel& kernel, std::string_view text) {
  return kernel.name.find(text) != std::string_view::npos;
}

bool attends(const MeasuredKernel& kernel) {
  return kernel.family == KernelFamily::attention_forward ||
         kernel.family == KernelFamily::attention_backward;
}

// Whether `part` is of the call of the kernel behind it on its stream.
bool in_front_of(const MeasuredKernel& part, const MeasuredKernel& kernel) {
  constexpr std::int64_t short_ns = 5'000;  // of a few bytes: a launch, no pass over memory
  if (has(part, "dot_do_o")) return attends(kernel);
  if (has(part, "Memset")) return part.duration_ns <= short_ns;
  return has(part, "Memcpy HtoD") && (has(kernel, "chunk_cat") || has(kernel, "split_with_sizes"));
}

bool may_be_in_front(const MeasuredKernel& part) {
  return has(part, "dot_do_o") || has(part, "Memset") || has(part, "Memcpy HtoD");
}

// Whether `kernel` goes on with the call of the one before it on its stream.
bool goes_on(const MeasuredKernel& last, const MeasuredKernel& kernel) {
  if (has(kernel, "convert_dq")) return attends(last);
  return last.name == kernel.name &&
         (last.family == KernelFamily::optimizer || has(last, "multi_tensor"));
}

}  // namespace

bool is_device_copy(const MeasuredKernel& kernel) {
  return has(kernel, "Memcpy DtoD") || has(kernel, "Memcpy PtoP");
}

Calls calls_of(const MeasuredTrace& trace, std::span<const std::uint32_t> kernels,
               std::span<const int> streams, int ranks) {
  struct Stream {
    const MeasuredKernel* last = nullptr;
    std::size_t item = 0;                // of the last one
    int copies = 0;                      // of the collective at hand
    std::vector<std::size_t> in_front;  // kernels that wait for the one that they are of
  };
  Calls out;
  out.item_of.assign(kernels.size(), Calls::elsewhere);
  std::map<int, Stream> all;
  const auto add = [&](std::size_t k, KernelFamily family) {
    out.item_of[k] = out.items.size();
    out.items.push_back({family, trace.kernels[kernels[k]].duration_ns});
  };
  const auto join = [&](std::size_t k, std::size_t item) {
    out.item_of[k] = item;
    out.items[item].nanoseconds += trace.kernels[kernels[k]].duration_ns;
  };
  const auto take = [&](Stream& s, std::size_t k) {
    const MeasuredKernel& kernel = trace.kernels[kernels[k]];
    const bool copy = ranks > 1 && is_device_copy(kernel);
    if (s.last != nullptr && (goes_on(*s.last, kernel) || (copy && s.copies > 0))) {
      join(k, s.item);
    } else {
      for (const std::size_t part : s.in_front)
        if (!in_front_of(trace.kernels[kernels[part]], kernel))
          add(part, trace.kernels[kernels[part]].family);
      add(k, copy ? KernelFamily::all_gather : kernel.family);
      s.item = out.item_of[k];
      for (const std::size_t part : s.in_front)
        if (out.item_of[part] == Calls::elsewhere) join(part, s.item);
      s.in_front.clear();
      if (copy) s.copies = ranks - 1;
    }
    s.copies = copy ? s.copies - 1 : 0;
    s.last = &kernel;
  };
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const MeasuredKernel& kernel = trace.kernels[kernels[k]];
    if (std::ranges::find(streams, kernel.stream) == streams.end()) continue;
    Stream& s = all[kernel.stream];
    if (may_be_in_front(kernel)) {
      s.in_front.push_back(k);
    } else {
      take(s, k);
    }
  }
  for (auto& [number, s] : all)
    for (const std::size_t part : s.in_front) add(part, trace.kernels[kernels[part]].family);
  return out;
}

}  // namespace sim::calibrate
