// context.cpp — every context-parallel method over all small shapes: the scores that each rank
// computes and the messages that it sends.
#include "sim/job/context/context.h"

#include <catch2/catch.hpp>
#include <functional>

using namespace sim;
using namespace sim::context;

namespace {

void each_shape(const std::function<void(const Method&, const AttentionShape&)>& visit) {
  for (const Method& method : catalog())
    for (const int ranks : {1, 2, 3, 4, 6, 8})
      for (int ulysses = 1; ulysses <= ranks; ++ulysses)
        for (const int groups : {1, 2, 4, 8})
          for (const TokenOrder order :
               {TokenOrder::contiguous, TokenOrder::zigzag, TokenOrder::striped}) {
            AttentionShape shape;
            shape.ranks = ranks;
            shape.ulysses = ulysses;
            shape.sequence = 48 * ranks;
            shape.batch = 2;
            shape.heads = 24;
            shape.groups = groups;
            shape.head_dim = 16;
            shape.order = order;
            if (method.problem(shape).empty()) visit(method, shape);
          }
}

// Scores of a call, per head. A query sees the keys up to its own, which is the last one.
std::int64_t scores(const Call& call) {
  const std::int64_t all = call.queries * call.keys;
  return call.causal ? all - call.queries * (call.queries - 1) / 2 : all;
}

std::int64_t sent(const Message& m, const AttentionShape& shape) {
  const int peers = m.level == Level::all          ? shape.ranks
                    : m.level == Level::neighbours ? shape.ulysses
                                                   : shape.ring();
  return m.kind == collective::Kind::ring_exchange ? m.bytes : m.bytes / peers * (peers - 1);
}

}  // namespace

TEST_CASE("context: every rank's scores together are those of the whole sequence") {
  int shapes = 0;
  each_shape([&](const Method& method, const AttentionShape& shape) {
    if (shape.order == TokenOrder::striped && shape.ranks > 1) return;  // all except some diagonals
    ++shapes;
    std::int64_t all = 0;
    for (int rank = 0; rank < shape.ranks; ++rank)
      for (const AttentionStep& step : method.forward(shape, rank))
        for (const Call& call : step.calls) all += scores(call) * method.heads(shape);
    if (all != shape.sequence * (shape.sequence + 1) / 2 * shape.heads)
      FAIL(method.name << " on " << shape.ranks << " ranks, ulysses " << shape.ulysses);
  });
  CHECK(shapes > 100);
}

TEST_CASE("context: in zigzag order every rank has the same to do") {
  each_shape([&](const Method& method, const AttentionShape& shape) {
    if (shape.order != TokenOrder::zigzag) return;
    std::int64_t first = 0;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      std::int64_t own = 0;
      for (const AttentionStep& step : method.forward(shape, rank))
        for (const Call& call : step.calls) own += scores(call);
      if (rank == 0) first = own;
      if (own != first) FAIL(method.name << " on " << shape.ranks << " ranks");
    }
  });
}

TEST_CASE("context: one rank sends nothing") {
  each_shape([&](const Method& method, const AttentionShape& shape) {
    if (shape.ranks > 1) return;
    for (const AttentionStep& step : method.forward(shape, 0))
      if (!step.before.empty() || !step.beside.empty() || !step.after.empty()) FAIL(method.name);
  });
}

TEST_CASE("context: an exchange of heads sends (u - 1) / u of q, k, v and the output") {
  // s 4096 on 4 ranks, b 1, 8 heads of 64, 2 groups: repeated to 4 for 4 ranks.
  AttentionShape shape;
  shape.ranks = 4;
  shape.sequence = 4096;
  shape.heads = 8;
  shape.groups = 2;
  shape.head_dim = 64;
  const std::int64_t row = 1024 * 64 * 2;  // local tokens, one head, 16 bits
  const std::vector<AttentionStep> steps = find("ulysses")->forward(shape, 1);
  REQUIRE(steps.size() == 1);
  std::int64_t all = 0;
  for (const Message& m : steps[0].before) all += sent(m, shape);
  for (const Message& m : steps[0].after) all += sent(m, shape);
  CHECK(all == row * (8 + 4 + 4 + 8) * 3 / 4);
  CHECK(find("ulysses")->groups(shape) == 1);
  CHECK(find("ulysses")->heads(shape) == 2);
}

TEST_CASE("context: a ring sends its keys to all others, two levels only along the ring") {
  AttentionShape shape;
  shape.ranks = 8;
  shape.ulysses = 2;
  shape.sequence = 8192;
  shape.heads = shape.groups = 8;
  shape.head_dim = 64;
  const std::int64_t keys_and_values = 2 * 1024 * 8 * 64 * 2;  // of a rank's own tokens
  std::int64_t ring = 0, levels = 0;
  for (const AttentionStep& step : find("ring")->forward(shape, 3))
    for (const Message& m : step.beside) ring += sent(m, shape);
  for (const AttentionStep& step : find("usp")->forward(shape, 3))
    for (const Message& m : step.beside) levels += sent(m, shape);
  CHECK(ring == 7 * keys_and_values);
  CHECK(levels == 3 * keys_and_values);  // half the heads of twice the tokens
}

TEST_CASE("context: groups are repeated until the ranks divide them") {
  CHECK(repeated_groups(8, 4) == 8);
  CHECK(repeated_groups(2, 4) == 4);
  CHECK(repeated_groups(6, 4) == 12);
  CHECK(repeated_groups(1, 8) == 8);
}

TEST_CASE("context: Megatron-LM's names of communication find their way") {
  CHECK(of_megatron("p2p") == find("ring"));
  CHECK(of_megatron("a2a") == find("ulysses"));
  CHECK(of_megatron("all_gather") == find("all-gather"));
  CHECK(of_megatron("a2a+p2p") == find("hierarchical"));
  CHECK(of_megatron("") == nullptr);
  CHECK(of_megatron("p2p ") == nullptr);
}

TEST_CASE("context: impossible shapes say what is wrong") {
  AttentionShape shape;
  shape.ranks = 8;
  shape.sequence = 8192;
  shape.heads = 12;
  shape.groups = 12;
  CHECK(find("ulysses")->problem(shape).find("12 heads") != std::string::npos);
  shape.heads = 16;
  shape.groups = 3;
  CHECK(find("ulysses")->problem(shape).find("repeated") != std::string::npos);
  shape.groups = 16;
  shape.ulysses = 3;
  CHECK(find("usp")->problem(shape).find("multiple") != std::string::npos);
  shape.ulysses = 4;
  shape.groups = 2;
  CHECK(find("usp")->problem(shape).empty());
  CHECK(!find("hierarchical")->problem(shape).empty());
  shape.sequence = 8200;
  CHECK(find("ring")->problem(shape).find("16 parts") != std::string::npos);
  CHECK(unknown("ulises").find("ulysses") != std::string::npos);
}
