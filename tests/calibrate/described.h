// described.h — measurements as text, with every field.
#pragma once

#include <fmt/format.h>

#include <string>

#include "sim/calibrate/readers/measurement.h"

namespace described {

using namespace sim;
using namespace sim::calibrate;

// Rounded to six digits.
inline std::string time_of(double seconds) {
  return fmt::format("{:.6g} us", seconds * 1e6);
}

inline std::string described(const model::Operation& o) {
  std::string text = fmt::format("{} p{}", o.name, static_cast<int>(o.precision));
  if (o.m > 0)
    text += fmt::format(" {}x{}x{} b{} r{}{}", o.m, o.n, o.k, o.batch, static_cast<int>(o.role),
                        o.accumulates_fp32 ? " +fp32" : "");
  if (o.heads > 0)
    text += fmt::format(" b{} {}/{} heads of {}, {} x {}{}", o.batch, o.heads, o.kv_heads,
                        o.head_dim, o.query, o.key, o.causal ? " causal" : "");
  return text + fmt::format(" k{} {:.6g} FLOPs {} B", static_cast<int>(o.kind), o.flops, o.bytes.n);
}

inline std::string described(const Measurements& m) {
  std::string text;
  if (!m.device.empty()) text += "device " + m.device + "\n";
  if (!m.date.empty()) text += "date " + m.date + "\n";
  for (const KernelSample& k : m.kernels) {
    text += fmt::format("kernel {} of {} on '{}' {} {} x{}{}\n", k.group, k.source, k.gpu,
                        k.implementation.empty() ? "-" : k.implementation, time_of(k.seconds),
                        k.count, k.in_run ? " in run" : "");
    for (const model::Operation& o : k.operations) text += "  " + described(o) + "\n";
  }
  for (const CollectiveSample& c : m.collectives)
    text += fmt::format("{} of {} on '{}' {} {} ranks {} nodes {} B {} {} x {:g} b/s{}{} x{}\n",
                        collective::name(c.kind), c.source, c.gpu,
                        c.algorithm.empty() ? "-" : c.algorithm, c.ranks, c.nodes, c.bytes.n,
                        time_of(c.seconds), c.nics, c.nic_bits_per_second,
                        c.host_timed ? " host" : "", c.groups ? " groups" : "", c.count);
  for (const HostSample& h : m.host)
    text += fmt::format("{} of {} {} x{}\n", h.path, h.source, time_of(h.seconds), h.count);
  for (const StepSample& s : m.steps)
    text += fmt::format(
        "step {} of {} {} {:.6g} TFLOP/s {:.6g} tokens/s {:.6g} reserved {:.6g} "
        "allocated\n",
        s.iteration, s.source, time_of(s.seconds), s.tflops_gpu, s.tokens_s_gpu, s.reserved_gib,
        s.allocated_gib);
  for (const std::string& fact : m.facts) text += "fact " + fact + "\n";
  for (const auto& [why, count] : m.passed) text += fmt::format("passed {} x {}\n", count, why);
  return text;
}

}  // namespace described
