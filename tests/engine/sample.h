// sample.h — plans and times for tests of the replay. They use round numbers of no real machine, so
// the engines are tested without devices and networks.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "sim/engine/replay.h"
#include "sim/program/build/build.h"

namespace sample {

inline sim::model::Architecture llama(int layers = 8) {
  sim::model::Architecture a;
  a.name = "llama-like";
  a.layers = layers;
  a.hidden = 1024;
  a.ffn = 3584;
  a.heads = 16;
  a.kv_heads = 8;
  a.head_dim = 64;
  a.vocab = 32000;
  a.max_positions = 8192;
  return a;
}

inline sim::model::Architecture gpt(int layers = 8) {
  sim::model::Architecture a = llama(layers);
  a.name = "gpt-like";
  a.ffn = 4096;
  a.kv_heads = 16;
  a.norm = sim::model::Norm::layer;
  a.position = sim::model::Position::learned;
  a.activation = sim::model::Activation::gelu;
  a.tied_embeddings = a.qkv_bias = a.linear_bias = true;
  a.attention_dropout = a.hidden_dropout = 0.1;
  return a;
}

inline sim::program::Plan plan(int tp, int cp, int pp, int dp, int microbatches) {
  sim::program::Plan p;
  p.architecture = llama();
  p.mesh.tp = tp;
  p.mesh.cp = cp;
  p.mesh.pp = pp;
  p.mesh.dp = dp;
  p.batch.global_batch = microbatches * dp;
  p.batch.sequence = 2048;
  p.pipeline.schedule = "1f1b";
  return p;
}

inline sim::program::Job job(const sim::program::Plan& plan) {
  return sim::program::build(sim::program::valid(plan),
                             {sim::Bytes{4 << 20}, sim::Bytes{8 << 20}, 100});
}

// 100 TFLOP/s, 1 TB/s, 2 us a kernel; 100 GB/s and 10 us a collective; 10 GB/s a message.
// `launch_us`: CPU time of a launch; large values make the job launch-bound.
inline sim::engine::Times times(const sim::program::Job& job, double launch_us = 4) {
  using sim::from_seconds;
  sim::engine::Times t;
  t.single_queue = job.single_queue;
  t.launch = from_seconds(launch_us * 1e-6);
  t.launch_collective = from_seconds(3 * launch_us * 1e-6);
  t.launch_exchange = from_seconds(5 * launch_us * 1e-6);
  t.event = from_seconds(1e-6);
  t.allocation = from_seconds(1e-6);
  t.release = from_seconds(5e-7);
  t.device_malloc = from_seconds(3e-4);
  t.device_free = from_seconds(2e-4);
  t.synchronize = from_seconds(1e-5);
  for (auto& h : t.host) h = from_seconds(2e-6);
  for (const auto& program : job.classes) {
    sim::engine::ClassTimes c;
    for (const auto& o : program.operations) {
      const double s = 2e-6 + o.flops / 1e14 + static_cast<double>(o.bytes.n) / 1e12;
      c.kernel.push_back(from_seconds(s));
      c.kernel_overlapped.push_back(from_seconds(1.25 * s));
    }
    for (const auto& x : program.transfers) {
      const double s = 1e-5 + static_cast<double>(x.bytes.n) / 1e11;
      c.transfer.push_back(from_seconds(s));
      c.transfer_overlapped.push_back(from_seconds(1.1 * s));
    }
    for (const auto& e : program.exchanges) {
      auto& messages = c.message.emplace_back();
      for (const auto& m : e.messages)
        messages.push_back(from_seconds(1e-5 + static_cast<double>(m.bytes.n) / 1e10));
    }
    t.classes.push_back(std::move(c));
  }
  return t;
}

inline sim::engine::Memory memory(const sim::program::Job& job,
                                  sim::Bytes total = sim::Bytes{std::int64_t{64} << 30}) {
  sim::engine::Memory m;
  m.total = total;
  m.outside.resize(job.classes.size());
  return m;
}

}  // namespace sample
