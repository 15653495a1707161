// context.h — catalog of ways to share a sequence among context-parallel ranks: which messages
// attention waits for, which travel beside its products, and what each rank multiplies.
//
// The local tokens of a sequence of s on c ranks are S = s / c. Causal attention has more to do for
// later tokens, so their order decides who works how much:
//
//     contiguous  rank j holds tokens jS .. (j+1)S              the last rank has 2 - 1/c of the
//     mean zigzag      rank j holds chunks j and 2c-1-j of 2c         every rank the same striped
//     rank j holds tokens j, j + c, j + 2c ...       the same but for the diagonal
//
// Ulysses exchanges sequence for heads: u ranks each get the whole of their common part of the
// sequence for heads / u heads. Grouped heads that u does not divide are repeated until it does.
//
// Invariants (tested for all small shapes)
//  (1) The scores that the ranks compute in all steps are those of the whole sequence: half of s x
//  s
//      with the diagonal, per head; each computes its own queries against every key before them.
//  (2) What a rank sends in an exchange of heads is (u-1)/u of what it holds; what goes around a
//      ring of r is r - 1 times its keys and values.
//  (3) With one rank no message is sent.
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

struct Shape {
  int ranks = 1;    // c
  int ulysses = 1;  // of them, neighbours that exchange sequence for heads, in rows of two levels
  std::int64_t sequence = 0, batch = 1;  // s, b
  int heads = 1, groups = 1;             // of a tensor-parallel rank: queries', keys' and values'
  std::int64_t head_dim = 0, element = 2;
  std::int64_t value_dim = 0;  // of values, where queries and keys have another; 0: head_dim
  TokenOrder order = TokenOrder::zigzag;

  std::int64_t local() const { return sequence / ranks; }
  int ring() const { return ranks / ulysses; }
  std::int64_t width_of_value() const { return value_dim > 0 ? value_dim : head_dim; }
  // Bytes of a token's key and value of so many groups.
  std::int64_t pair_bytes(int of) const {
    return batch * of * (head_dim + width_of_value()) * element;
  }
};

// Who exchanges sequence for heads.
enum class Exchange : std::uint8_t { nobody, neighbours, all };

// Who takes part in a message: all ranks, neighbours, or those that stand alike among theirs.
enum class Level : std::uint8_t { all, neighbours, alike };

struct Message {
  std::string_view label;  // "query exchange"
  collective::Kind kind;
  Level level;
  std::int64_t bytes;  // nccl-tests' size, see network.h
};

// One call of attention: every query against every key, or those before it.
struct Call {
  std::int64_t queries = 0, keys = 0;
  bool causal = false;
  friend bool operator==(const Call&, const Call&) = default;
};

// What a rank does between two meetings with its neighbours.
struct Step {
  std::vector<Message> before;  // one after the other, and then
  std::vector<Call> calls;      // ... these,
  std::vector<Message> beside;  // ... while these travel,
  std::vector<Message> after;   // ... and then these
  bool merges = false;          // its outputs are added to those of earlier steps
};

struct Method {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  std::string_view megatron;  // --cp-comm-type; "": Megatron-LM has none
  // Why a shape is impossible, with those that would do; "": it is possible.
  std::string (*problem)(const Shape& shape);
  std::vector<Step> (*forward)(const Shape& shape, int rank);
  Exchange exchange = Exchange::nobody;
  std::string_view torch = {};  // rotate_method of PyTorch's context_parallel; "": it has none

  int exchanging(const Shape& shape) const;  // ranks that exchange with each other; 1: nobody does
  // How many heads and groups a call has.
  int heads(const Shape& shape) const { return shape.heads / exchanging(shape); }
  int groups(const Shape& shape) const;
};

std::span<const Method> catalog();
const Method* find(std::string_view name);              // nullptr when there is none
const Method* of_megatron(std::string_view comm_type);  // "p2p", "a2a", ...; nullptr
// "... no way to share a sequence", with the nearest name.
std::string unknown(std::string_view name);

// The fewest groups, each of the shape's as often as the others, that u divides.
int repeated_groups(int groups, int ulysses);

// Steps of a ring of `ring` ranks over `sequence` tokens, rank `place` of it, keys and values of
// `width` bytes a token.
std::vector<Step> ring_steps(TokenOrder order, int ring, int place, std::int64_t sequence,
                             std::int64_t width, Level level);

// The rules that every method shares: tokens split evenly, in two chunks a rank for zigzag order.
std::string split_problem(const Shape& shape);
// Heads that u cannot share, or groups that no repetition makes fit.
std::string heads_problem(const Shape& shape, int ulysses);

}  // namespace sim::context
