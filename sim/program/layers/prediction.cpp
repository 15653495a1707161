#include "sim/program/layers/prediction.h"

#include <memory>

#include "sim/program/layers/linear/linear.h"
#include "sim/program/layers/linear/matrix.h"
#include "sim/program/layers/linear/norm.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

namespace {

Matrix joining(const Rank& rank) {
  const std::int64_t h = rank.plan.architecture.hidden;
  return {"eh proj", "eh_proj.weight", 2 * h, h / rank.dim.tp};
}

struct Joined {
  Value embedded, normed, cat;
  Normed of_embedding, of_stream;
  bool first, owns_table;

  Gradients back(Writer& w) const;
};

// Every tensor-parallel rank computes whole rows of its columns; then the columns are gathered.
void gather(Writer& w, std::int64_t bytes) {
  if (w.dim.tp > 1) w.e.collective(Kind::all_gather, Stream::tp, bytes, "all-gather");
}

Gradients Joined::back(Writer& w) const {
  const std::int64_t u = w.dim.residual();
  const Matrix m = joining(w.rank);
  const Value of_cat = w.temporary(2 * u, "prediction input gradient");
  gather(w, w.dim.full());
  input_gradient(w, m, w.dim.tokens);
  if (w.dim.tp > 1) w.e.collective(Kind::reduce_scatter, Stream::tp, 2 * w.dim.full(), "scatter");
  weight_gradient(w, m, w.dim.tokens);
  w.e.free(frame_slot(gradient));
  w.drop(cat);
  hand_over(w, m);
  const Value of_stream_input = w.temporary(u, "norm input gradient");
  const NormGradients stream = norm_backward(w, 0);
  norm_gradients(w, stream.weight, stream.bias, "hnorm.weight", "");
  const Value of_embedded = w.temporary(u, "norm input gradient");
  const NormGradients embedding = norm_backward(w, of_cat);
  norm_gradients(w, embedding.weight, embedding.bias, "enorm.weight", "");
  w.drop({of_embedding.rsigma, of_embedding.mu, of_stream.rsigma, of_stream.mu, embedded, normed});
  // The table's gradient is a separate tensor, added immediately.
  const std::int64_t table = w.dim.element * w.dim.vocab * w.dim.hidden;
  Value whole = 0;
  if (w.sequence_parallel()) {
    whole = w.temporary(w.dim.full(), "gathered gradient");
    w.e.collective(Kind::all_gather, Stream::tp, w.dim.full(), "all-gather");
  }
  const Value of_table = w.temporary(table, "embedding gradient");
  w.memory_bound(OperationKind::embedding, "embedding backward", 3 * w.dim.full() + table);
  w.drop({whole, of_embedded});
  w.memory_bound(OperationKind::elementwise, "main_grad add", 5 * table);
  w.drop(of_table);
  if (first && owns_table) w.ready("word embedding");
  return {of_stream_input};
}

Gradients norm_back(Writer& w, Gradients gradients, const Normed& norm, Value stream) {
  w.e.alloc(frame_slot(gradient), w.dim.residual(), Category::temporaries, "gradient stream");
  const NormGradients made = norm_backward(w, gradients[0]);
  norm_gradients(w, made.weight, made.bias, "mtp final norm", "");
  w.drop({norm.output, norm.rsigma, norm.mu, stream});
  return {};
}

// The embedding of the rolled tokens, this rank's rows.
Value embed(Writer& w) {
  Value rows = w.temporary(w.dim.full(), "embedding rows");
  w.memory_bound(OperationKind::embedding, "embedding lookup", 2 * w.dim.full());
  if (w.sequence_parallel()) {
    const Value mine = w.activation(w.dim.residual(), "predicted embedding");
    w.e.collective(Kind::reduce_scatter, Stream::tp, w.dim.full(), "reduce-scatter");
    w.drop(rows);
    rows = mine;
  } else if (w.dim.tp > 1) {
    w.e.collective(Kind::all_reduce, Stream::tp, w.dim.full(), "all-reduce");
  }
  return rows;
}

Value join(Writer& w, Value normed, bool first) {
  const std::int64_t u = w.dim.residual();
  Joined j{};
  j.first = first;
  j.owns_table = !w.rank.has_first_part();
  j.normed = normed;
  j.embedded = embed(w);
  j.of_embedding = norm_forward(w, u, "normed embedding", true);
  j.of_stream = norm_forward(w, u, "normed stream", true);
  j.cat = w.activation(2 * u, "prediction input");
  w.memory_bound(OperationKind::copy, "cat prediction input", 4 * u);
  w.drop({j.of_embedding.output, j.of_stream.output});
  gather(w, 2 * w.dim.full());
  const Value out = w.activation(u, "residual stream");
  multiply(w, joining(w.rank), w.dim.tokens);
  gather(w, w.dim.full());
  w.save({j.embedded, normed, j.cat});
  w.drop({j.embedded, j.cat});
  w.node([j](Writer& b, Gradients) { return j.back(b); });
  return out;
}

}  // namespace

ParameterList prediction_parameters(const Rank& rank) {
  const model::Architecture& a = rank.plan.architecture;
  const bool sp = rank.plan.uses_sequence_parallel();
  ParameterList list;
  if (!rank.has_first_part())
    list.push_back({"word embedding", rank.dim.vocab * rank.dim.hidden, false, false, true});
  const auto to_depth = [&list](std::size_t from, std::int64_t depth) {
    for (; from < list.size(); ++from) list[from].depth = static_cast<int>(depth);
  };
  to_depth(0, 1);
  const std::vector<std::uint8_t> mixture = model::mixture_layers(a);
  for (std::int64_t depth = 1; depth <= a.predicted_tokens; ++depth) {
    const std::size_t from = list.size();
    for (const char* name : {"enorm.weight", "hnorm.weight"}) list.push_back({name, a.hidden, sp});
    const Matrix m = joining(rank);
    list.push_back({m.parameter, m.in * m.out, false, true});
    for (const Parameter& p : attention_parameters(rank)) list.push_back(p);
    const bool experts = !mixture.empty() && mixture.back() != 0;
    for (const Parameter& p : experts ? mixture_parameters(rank) : mlp_parameters(rank))
      list.push_back(p);
    list.push_back({"mtp final norm", a.hidden, sp});
    to_depth(from, depth);
  }
  return list;
}

namespace {

// A stream with two readers. The gradient of the first reader waits for that of the second and is
// then added to it. `arrives` is recorded after both readers, `joins` before both.
struct Fork {
  std::shared_ptr<Value> waiting = std::make_shared<Value>(0);

  void joins(Writer& w) const {
    w.node([waiting = waiting](Writer& b, Gradients g) -> Gradients {
      b.memory_bound(OperationKind::elementwise, "add prediction gradient", 3 * b.dim.residual());
      b.drop(g[0]);
      return {*waiting};
    });
  }
  void arrives(Writer& w) const {
    w.node([waiting = waiting](Writer&, Gradients g) -> Gradients {
      *waiting = g[0];
      return {};
    });
  }
};

// Switches to the parameters of this module from here on; in the backward pass, to those before it.
void enter(Writer& w, int depth, int before) {
  w.set.depth = depth;
  w.node([before](Writer& b, Gradients g) {
    b.set.depth = before;
    return g;
  });
}

}  // namespace

void predict(Writer& w, Value normed, const std::function<void(Writer&, Value, bool)>& head) {
  const Fork main;
  main.joins(w);
  Value stream = normed;
  for (int depth = 1; depth <= w.a.predicted_tokens; ++depth) {
    const bool first = depth == 1, last = depth == w.a.predicted_tokens;
    enter(w, depth, 0);
    const Value in = join(w, stream, first);
    const Value out = layer(w, in);
    w.drop(in);
    const Normed norm = norm_forward(w, w.dim.residual(), "final norm output", false);
    w.save({out, norm.output});
    w.node([=](Writer& b, Gradients g) { return norm_back(b, g, norm, out); });
    w.drop(out);
    enter(w, 0, depth);
    const Fork next;
    if (!last) next.joins(w);
    head(w, norm.output, first);
    if (!last) next.arrives(w);
    if (!first) w.drop(stream);
    stream = norm.output;
  }
  if (stream != normed) w.drop(stream);
  main.arrives(w);
}

}  // namespace sim::program
