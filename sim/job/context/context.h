// context.h — catalog of methods that share a sequence among context-parallel ranks. Each method
// gives the messages that attention waits for, the messages that overlap its products, and the
// products of each rank.
//
// A sequence of s tokens on c ranks has S = s / c local tokens. Causal attention costs more for
// later tokens, so the order of tokens decides the load of each rank:
//
//     contiguous  rank j holds tokens jS .. (j+1)S              the last has 2 - 1/c of the mean
//     zigzag      rank j holds chunks j and 2c-1-j of 2c        all ranks have the same load
//     striped     rank j holds tokens j, j + c, j + 2c ...      the same except for the diagonal
//
// Ulysses exchanges sequence for heads: each of u ranks gets all tokens of their common part, for
// heads / u heads. Grouped key-value heads are repeated until u divides their number.
//
// Invariants (tested for all small shapes)
// (1) All steps of all ranks together compute the scores of the whole sequence, per head: half of
//     s x s with the diagonal. Each rank computes its own queries against every key before them.
// (2) In an exchange of heads a rank sends (u-1)/u of its data. In a ring of r ranks, its keys and
//     values are sent r - 1 times.
// (3) With one rank no message is sent.
//
// Sources: TransformerEngine 2.9, pytorch/attention/dot_product_attention/context_parallel.py (p2p,
// all_gather, a2a, a2a+p2p); Megatron-LM core 0.14, --cp-comm-type; Jacobs et al., "DeepSpeed
// Ulysses", arXiv:2309.14509; Fang and Zhao, "USP", arXiv:2405.07719, and its code
// (feifeibear/long-context-attention, hybrid/attn_layer.py); Liu et al., arXiv:2310.01889.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/collective/collective.h"

namespace sim::context {

enum class TokenOrder : std::uint8_t { contiguous, zigzag, striped };

struct AttentionShape {
  int ranks = 1;    // c
  int ulysses = 1;  // in methods of two levels: neighbours that exchange sequence for heads
  std::int64_t sequence = 0, batch = 1;  // s, b
  int heads = 1, groups = 1;             // on a tensor-parallel rank: query heads, key-value heads
  std::int64_t head_dim = 0, element = 2;
  std::int64_t value_dim = 0;  // width of a value head, if it differs; 0: head_dim
  TokenOrder order = TokenOrder::zigzag;

  std::int64_t local() const { return sequence / ranks; }
  int ring() const { return ranks / ulysses; }
  std::int64_t width_of_value() const { return value_dim > 0 ? value_dim : head_dim; }
  // Bytes of a token's keys and values, for `of` groups.
  std::int64_t pair_bytes(int of) const {
    return batch * of * (head_dim + width_of_value()) * element;
  }
};

// The ranks that exchange sequence for heads.
enum class Exchange : std::uint8_t { nobody, neighbours, all };

// The ranks of a message: all, a group of neighbours, or the ranks with the same place in their
// groups.
enum class Level : std::uint8_t { all, neighbours, alike };

struct Message {
  std::string_view label;  // "query exchange"
  collective::Kind kind;
  Level level;
  std::int64_t bytes;  // nccl-tests' size, see network.h
};

// One call of attention: every query against every key, or only against earlier keys (causal).
struct Call {
  std::int64_t queries = 0, keys = 0;
  bool causal = false;
  friend bool operator==(const Call&, const Call&) = default;
};

// The work of a rank between two synchronisations with its neighbours.
struct AttentionStep {
  std::vector<Message> before;  // sent one after the other; then
  std::vector<Call> calls;      // ... these calls run,
  std::vector<Message> beside;  // ... beside these messages;
  std::vector<Message> after;   // ... then these are sent
  bool merges = false;          // the output is added to that of earlier steps
};

struct Method {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  std::string_view megatron;  // --cp-comm-type; "": Megatron-LM has none
  // The reason why a shape is invalid, with valid shapes; "": it is valid.
  std::string (*problem)(const AttentionShape& shape);
  std::vector<AttentionStep> (*forward)(const AttentionShape& shape, int rank);
  Exchange exchange = Exchange::nobody;
  std::string_view torch = {};  // rotate_method of PyTorch's context_parallel; "": it has none

  int exchanging(
      const AttentionShape& shape) const;  // ranks that exchange with each other; 1: no exchange
  // Heads and key-value groups of a call.
  int heads(const AttentionShape& shape) const { return shape.heads / exchanging(shape); }
  int groups(const AttentionShape& shape) const;
};

std::span<const Method> catalog();
const Method* find(std::string_view name);              // nullptr when there is none
const Method* of_megatron(std::string_view comm_type);  // "p2p", "a2a", ...; nullptr
// The message for an unknown name, with the nearest known name.
std::string unknown(std::string_view name);

// The smallest multiple of `groups` that `ulysses` divides: the number of groups after repetition.
int repeated_groups(int groups, int ulysses);

// The steps of rank `place` of a ring of `ring` ranks over `sequence` tokens. `width`: bytes of a
// token's keys and values.
std::vector<AttentionStep> ring_steps(TokenOrder order, int ring, int place, std::int64_t sequence,
                                      std::int64_t width, Level level);

// The rule that all methods share: tokens split evenly, in two chunks per rank for zigzag order.
std::string split_problem(const AttentionShape& shape);
// Fails if `ulysses` ranks cannot share the heads evenly, or if repeated groups do not divide the
// heads.
std::string heads_problem(const AttentionShape& shape, int ulysses);

}  // namespace sim::context
