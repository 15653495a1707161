// emit.h — writes blocks: the vocabulary in which forward.cpp, backward.cpp, ends.cpp and step.cpp
// say what a rank issues. Operations, transfers and labels are interned in the program.
#pragma once

#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/program/ir/program.h"

namespace sim::program {

// Interns into one program.
class Tables {
 public:
  explicit Tables(Program& program) : program_(program) { last_operation_.fill(-1); }

  std::uint32_t operation(const model::Operation& operation);
  std::uint32_t transfer(const Transfer& transfer);
  // REQUIRES: the text outlives this.
  std::uint16_t label(std::string_view text);
  Program& program() { return program_; }
  // Every tensor is filled when it is made (StackPlan::deterministic).
  void set_fills(bool fills) { fills_ = fills; }
  bool fills() const { return fills_; }

 private:
  bool fills_ = false;
  Program& program_;
  // Operations by the lowest bits of their hash: the last that came, and the one before each.
  std::array<std::int32_t, 1024> last_operation_;
  std::vector<std::int32_t> operation_before_;
  std::unordered_map<std::string_view, std::uint16_t> labels_;
  // Labels are literals: what was asked for last, by address.
  struct Known {
    std::string_view text;
    std::uint16_t number = 0;
  };
  std::array<Known, 256> last_labels_;
};

class Emitter {
 public:
  Emitter(Tables& tables, std::string name) : tables_(tables) { block_.name = std::move(name); }

  // The block's gathers and scatters over tensor-parallel ranks are sent in so many pieces beside
  // products.
  void set_pieces(int pieces) { pieces_ = pieces; }

  void alloc(Slot slot, std::int64_t bytes, Category category, std::string_view label,
             Stream pool = Stream::compute);
  void free(Slot slot, std::uint8_t flags = 0);
  void move(Slot from, Slot to);  // the tensor changes its holder, nothing happens to memory
  void record_stream(Slot slot, Stream stream);
  void kernel(const model::Operation& operation, std::uint8_t flags = 0,
              Stream stream = Stream::compute);
  // A kernel that reads and writes so much.
  void memory_bound(model::OperationKind kind, std::string_view name, std::int64_t bytes,
                    std::uint8_t flags = 0, Stream stream = Stream::compute);
  // One collective; bytes as network.h counts them.
  void collective(collective::Kind kind, Stream communicator, std::int64_t bytes,
                  std::string_view label, std::uint8_t flags = joins, std::uint16_t event = 0,
                  Stream stream = Stream::compute);
  // The ranks agree on one number; `followed`: see Transfer.
  void agree(Stream communicator, std::string_view label, bool followed);
  // One all-to-all of tokens to the places of their choices; bytes of all copies.
  void dispatch(Stream communicator, std::int64_t bytes, const Choices& choices, int route,
                std::string_view label, std::uint8_t flags = joins, std::uint16_t event = 0);
  void exchange(Exchange exchange, std::string_view label, std::uint8_t flags,
                std::uint16_t event = 0);
  void wait(std::uint16_t event, Stream stream = Stream::compute);
  void record(std::uint16_t event, Stream stream = Stream::compute);
  void sync_event(std::uint16_t event, std::string_view label);
  void sync_stream(Stream stream, std::string_view label);
  void sync_device(std::string_view label);
  void host(HostWork work, std::int64_t amount = 1);

  bool empty() const { return block_.code.empty(); }
  std::vector<Instruction>& code() { return block_.code; }
  // Adds the block to the program and returns its index.
  std::uint32_t finish();

  Tables& tables() { return tables_; }

 private:
  int pieces(collective::Kind kind, Stream communicator) const;
  void send(const Transfer& transfer, std::string_view label, std::uint8_t flags,
            std::uint16_t event, Stream stream);

  Tables& tables_;
  Block block_;
  int pieces_ = 1;
};

}  // namespace sim::program
