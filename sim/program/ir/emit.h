// emit.h — appends instructions to a block and interns their operands in the program's tables.
//
// Two kinds of code write blocks with an Emitter. Layers use it through Writer (autograd_graph.h).
// Code without a backward pass uses it directly: pass begin and end, batches, messages, optimizer
// steps, data parallelism (sim/program/build, sim/program/parallel).
//
// An Emitter keeps issue order and never reorders. Equal operations, transfers and labels are
// stored once per program.
#pragma once

#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/program/ir/program.h"

namespace sim::program {

// Intern tables of one program: each returns the index of an equal entry, and adds it if new.
class Tables {
 public:
  explicit Tables(Program& program) : program_(program) { last_operation_.fill(-1); }

  std::uint32_t operation(const model::Operation& operation);
  std::uint32_t transfer(const Transfer& transfer);
  // REQUIRES: the text outlives this object.
  std::uint16_t label(std::string_view text);
  Program& program() { return program_; }
  // Every new tensor is filled by a kernel (StackPlan::deterministic).
  void set_fills(bool fills) { fills_ = fills; }
  bool fills() const { return fills_; }

 private:
  bool fills_ = false;
  Program& program_;
  // Hash table of operations. Each bucket links its operations from the newest to the oldest.
  std::array<std::int32_t, 1024> last_operation_;
  std::vector<std::int32_t> operation_before_;
  std::unordered_map<std::string_view, std::uint16_t> labels_;
  // Cache of recent label lookups by address, because most labels are string literals.
  struct Known {
    std::string_view text;
    std::uint16_t number = 0;
  };
  std::array<Known, 256> last_labels_;
};

// One block under construction.
class Emitter {
 public:
  Emitter(Tables& tables, std::string name) : tables_(tables) { block_.name = std::move(name); }

  // All-gathers and reduce-scatters over Stream::tp are split into `pieces` (Transfer::pieces).
  void set_pieces(int pieces) { pieces_ = pieces; }
  int pieces() const { return pieces_; }

  // Each call below appends one instruction; program.h (Op) defines its meaning.
  void alloc(Slot slot, std::int64_t bytes, Category category, std::string_view label,
             Stream pool = Stream::compute);
  void free(Slot slot, std::uint8_t flags = 0);
  void move(Slot from, Slot to);  // the tensor changes its slot; memory does not change
  void record_stream(Slot slot, Stream stream);
  void kernel(const model::Operation& operation, std::uint8_t flags = 0,
              Stream stream = Stream::compute);
  // A kernel limited by memory bandwidth; `bytes` counts reads and writes.
  void memory_bound(model::OperationKind kind, std::string_view name, std::int64_t bytes,
                    std::uint8_t flags = 0, Stream stream = Stream::compute);
  // One collective; `bytes` is the message size as nccl-tests counts it (network.h).
  void collective(collective::Kind kind, Stream communicator, std::int64_t bytes,
                  std::string_view label, std::uint8_t flags = joins, std::uint16_t event = 0,
                  Stream stream = Stream::compute);
  // An all-reduce of one 4-byte number; `followed`: see Transfer.
  void agree(Stream communicator, std::string_view label, bool followed);
  // One all-to-all of tokens to the ranks of their experts; `bytes` counts all copies.
  void dispatch(Stream communicator, std::int64_t bytes, const Choices& choices, int route,
                std::string_view label, std::uint8_t flags = joins, std::uint16_t event = 0);
  void exchange(Exchange exchange, std::string_view label, std::uint8_t flags,
                std::uint16_t event = 0);
  void wait(std::uint16_t event, Stream stream = Stream::compute);
  void record(std::uint16_t event, Stream stream = Stream::compute);
  void sync_event(std::uint16_t event, std::string_view label);
  void sync_stream(Stream stream, std::string_view label);
  void sync_device(std::string_view label);
  // Adds work of the CPU. No effect inside a CUDA graph: its one launch replaces that work.
  void host(HostWork work, std::int64_t amount = 1);

  // From here to end_graph() everything is part of one CUDA graph: the CPU launches it here. Graphs
  // do not nest: inner calls have no effect. Messages between stages and collectives of data
  // parallelism stay outside.
  void begin_graph();
  void end_graph();
  // The whole block is part of a graph that another block launches.
  void stay_in_graph() { ++graphs_; }

  bool empty() const { return block_.code.empty(); }
  std::vector<Instruction>& code() { return block_.code; }
  // Adds the block to the program and returns its index.
  std::uint32_t finish();

  Tables& tables() { return tables_; }

 private:
  Instruction instruction(Op op) const;
  int pieces(collective::Kind kind, Stream communicator) const;
  void send(const Transfer& transfer, std::string_view label, std::uint8_t flags,
            std::uint16_t event, Stream stream);

  Tables& tables_;
  Block block_;
  int pieces_ = 1;
  int graphs_ = 0;  // graphs that are open
};

// Another number of pieces until the end of a scope.
class PiecesFor {
 public:
  PiecesFor(Emitter& emitter, int pieces) : emitter_(emitter), before_(emitter.pieces()) {
    emitter.set_pieces(pieces);
  }
  ~PiecesFor() { emitter_.set_pieces(before_); }
  PiecesFor(const PiecesFor&) = delete;
  PiecesFor& operator=(const PiecesFor&) = delete;

 private:
  Emitter& emitter_;
  int before_;
};

}  // namespace sim::program
