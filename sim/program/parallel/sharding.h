// sharding.h — data parallelism: which rank holds which part of the parameters, gradients and
// optimizer state, and when they are gathered and reduced.
//
//     replicated   everything on every rank; gradients are summed (Megatron-LM's DDP)
//     zero1        the optimizer state is sharded (Megatron-LM's distributed optimizer)
//     deepspeed    the same in DeepSpeed: gradients are tensors until the end of a step
//     fsdp         parameters too, gathered unit by unit (PyTorch's FSDP 1 and 2)
//     depth        the layers' weights, gathered around each product (AxoNN)
//
// The builder requests blocks around each unit that a pass visits. Modules report from inside their
// blocks which parameter they are about to use and which gradient is ready.
//
//     pass     before(ends) ── before(0) layer 0 after(0) ── ... ── after(ends)
//     layer    ── use(qkv) product ──    ── product of gradients, keep(qkv) or ready(qkv) ──
//
// Invariants
// (1) begin() is called for each pass of a step, in the order in which the rank runs them. The
//     functions before(), after(), use(), keep() and ready() refer to the pass that began last.
// (2) A pass is a function of its kind, chunk, moment and state(). A builder that has written it
//     before may restore() the state after it instead of writing it again.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/job/schedule/schedule.h"
#include "sim/program/ir/parameter.h"
#include "sim/program/ir/rank.h"

namespace sim::program {

// The moment of a pass: whether its step is the first of the run, and whether it is the first or
// the last of its kind and chunk. Gradients are complete in the last pass that adds to them.
struct Moment {
  bool first_step = false, first = false, last = false;
  bool first_of_ends = false;  // among passes that add to gradients outside the layers' products
  friend auto operator<=>(const Moment&, const Moment&) = default;
};

// Why a pass visits a unit. `recompute`: the forward pass of a recomputed layer inside a backward
// pass, except the layer whose backward pass follows directly.
enum class Visit : std::uint8_t { forward, recompute, backward, weight };

class Sharding {
 public:
  using State = std::vector<std::uint8_t>;

  explicit Sharding(Rank& rank);
  virtual ~Sharding() = default;
  Sharding(const Sharding&) = delete;
  Sharding& operator=(const Sharding&) = delete;

  const Parameters& parameters(int chunk) const {
    return parameters_[static_cast<std::size_t>(chunk)];
  }
  std::int64_t elements() const;  // of all chunks, without padding
  // The communicators of a rank: those of the plan's degrees, of data parallelism, of the pipeline.
  virtual std::vector<Stream> communicators() const;

  // Set-up of model, buffers and optimizer; begin of a step (zero_grad); end of a step, after the
  // last pass.
  virtual void set_up(Emitter& e) = 0;
  virtual void begin_step(Emitter& e, bool first) = 0;
  virtual void end_step(Emitter& e, bool first) = 0;

  virtual void begin(schedule::Pass pass, int chunk, const Moment& moment);
  virtual State state() const { return {}; }
  virtual void restore(const State&) {}
  // Whether use() and ready() write anything in this pass.
  virtual bool hooks() const { return false; }
  // Blocks around a unit of the chunk (a layer, or `ends`).
  virtual std::optional<std::uint32_t> before(int /*layer*/, Visit) { return {}; }
  virtual std::optional<std::uint32_t> after(int /*layer*/, Visit) { return {}; }
  // Between a layer's recomputation and its backward pass.
  virtual std::optional<std::uint32_t> before_gradients(int /*layer*/) { return {}; }

  // A parameter is about to be read.
  void use(Emitter& e, Unit unit, std::string_view name, std::string_view owner = {});
  // A gradient exists as a separate tensor. True: it was taken out of its slot, to wait for the
  // rest of its unit. False: the module adds it to the existing gradient and frees it.
  bool keep(Emitter& e, Unit unit, std::string_view name, Slot gradient,
            std::string_view owner = {});
  // Called around a product of a layer: the rank holds the gathered weight in between.
  virtual void open(Emitter&, Unit, std::string_view /*weight*/, Visit) {}
  virtual void close(Emitter&, Unit, std::string_view /*weight*/, Visit) {}
  // The gradient is added; in a last pass it is complete.
  void ready(Emitter& e, Unit unit, std::string_view name, std::string_view owner = {});

 protected:
  // Appends the communicators of this kind of data parallelism.
  virtual void add_communicators(std::vector<Stream>& to) const = 0;
  virtual void used(Emitter&, int /*chunk*/, int /*parameter*/) {}
  virtual bool kept(Emitter&, int /*chunk*/, int /*parameter*/, Slot) { return false; }
  virtual void is_ready(Emitter&, int /*chunk*/, int /*parameter*/) {}

  Rank& rank_;
  const Plan& plan_;
  schedule::Pass pass_ = schedule::Pass::forward;
  int chunk_ = 0;
  Moment moment_;

 private:
  std::vector<Parameters> parameters_;
};

// Common parts of the set-up and of the end of a step.
void wait_for_all(Rank& rank, Emitter& e, std::string_view when, std::string_view reduction);
// The L2 norm of the rank's gradients, its sum over the world, and the scaling. `reads`: the CPU
// waits for the norm, because it scales only if the norm exceeds the limit (it does early in
// training).
void clip_gradients(Rank& rank, Emitter& e, std::int64_t elements, bool reads);
// Receives the global norm from the last stage. The step was taken before the norm was known, and
// is confirmed here.
void validate_step(Rank& rank, Emitter& e);
// With tied embeddings, the first and the last stage add their gradients of the table.
void sum_tied_embeddings(Rank& rank, Emitter& e, std::int64_t bytes);
// Communicators that every kind needs, by the plan's degrees.
std::vector<Stream> model_communicators(const Rank& rank);

}  // namespace sim::program
