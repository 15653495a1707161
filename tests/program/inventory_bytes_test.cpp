// inventory_bytes_test.cpp — checks the columns `bytes` and `category` of INVENTORY.md against
// every allocation of a catalog of plans. The formulas are parsed from the text.
#include <catch2/catch.hpp>
#include <cctype>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sample.h"
#include "sim/program/plan/context_plan.h"
#include "sim/program/plan/schedule_plan.h"

namespace {

using namespace sim::program;
using Values = std::map<std::string, double, std::greater<>>;

// Bytes of a rank's keys, with the repetition that the exchange of heads needs.
double repeated_width(const Plan& plan) {
  const sim::context::AttentionShape shape = context_shape(plan);
  const sim::context::Method& method = context_method(plan);
  return static_cast<double>(method.groups(shape) * method.exchanging(shape) * shape.head_dim);
}

// The letters that INVENTORY.md defines, longest first.
Values values_of(const Plan& plan) {
  const sim::model::Architecture& a = plan.architecture;
  const double t = plan.mesh.tp, c = plan.mesh.cp;
  const double e = plan.numerics.precision == sim::model::Precision::fp32 ? 4 : 2;
  const double s = static_cast<double>(slice_lengths(plan).front()), S = s / c;
  const double b = plan.batch.micro_batch;
  const double h = static_cast<double>(a.hidden), T = S * b;
  const double shard = plan.uses_sequence_parallel() ? T / t : T;
  const double d = static_cast<double>(a.head_dim), heads = static_cast<double>(a.heads);
  const double groups = static_cast<double>(a.kv_heads), q = heads * d / t, k = groups * d / t;
  const int shares = plan.cuts_vocabulary() ? plan.mesh.tp * plan.mesh.pp : plan.mesh.tp;
  const double v = static_cast<double>(sim::model::padded_vocab(a.vocab, shares)), V = v / shares;
  const double F = static_cast<double>(a.ffn) / t;
  return {{"e", e},
          {"s", s},
          {"S", S},
          {"b", b},
          {"h", h},
          {"a", heads},
          {"g", groups},
          {"d", d},
          {"t", t},
          {"c", c},
          {"T'", shard},
          {"T", T},
          {"q", q},
          {"k", k},
          {"F", F},
          {"V", V},
          {"U'", e * shard * h},
          {"U", e * T * h},
          {"L", e * T * V},
          {"Kk", 2 * e * T * k},
          {"w", repeated_width(plan)},
          {"o", static_cast<double>(context_shape(plan).ring())},
          {"A", e * b * heads / t * S * S},
          {"m", std::min(T, V)},
          {"r", plan.lora.rank},
          {"positions", static_cast<double>(a.max_positions)},
          {"SMs", 108}};
}

// Evaluates products, quotients and sums; a blank multiplies. Parses as far as it can.
class Formula {
 public:
  Formula(const std::string& text, const Values& values) : text_(text), values_(values) {}
  std::optional<double> sum() {
    std::optional<double> left = product();
    while (left) {
      const std::size_t before = at_;
      const char sign = take("+-");
      const std::optional<double> right = sign ? product() : std::nullopt;
      if (!right) {
        at_ = before;
        break;
      }
      *left += sign == '+' ? *right : -*right;
    }
    return left;
  }

 private:
  std::optional<double> product() {
    std::optional<double> left = factor();
    while (left) {
      const std::size_t before = at_;
      const char sign = take("x/");
      const std::optional<double> right = factor();
      if (!right) {
        at_ = before;
        break;
      }
      *left = sign == '/' ? *left / *right : *left * *right;
    }
    return left;
  }
  std::optional<double> factor() {
    skip();
    const std::size_t before = at_;
    if (take("(")) {
      const std::optional<double> inner = sum();
      if (inner && take(")")) return inner;
      at_ = before;
      return std::nullopt;
    }
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      std::size_t used = 0;
      const double number = std::stod(text_.substr(at_), &used);
      at_ += used;
      return number;
    }
    for (const auto& [name, value] : values_) {
      if (text_.compare(at_, name.size(), name) != 0) continue;
      const std::size_t end = at_ + name.size();
      if (end < text_.size() && std::isalpha(static_cast<unsigned char>(text_[end]))) continue;
      at_ = end;
      return value;
    }
    return std::nullopt;
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  char take(const std::string& signs) {
    skip();
    if (at_ >= text_.size() || signs.find(text_[at_]) == std::string::npos) return 0;
    // An x between words is not a sign.
    if (text_[at_] == 'x' && at_ + 1 < text_.size() && text_[at_ + 1] != ' ') return 0;
    return text_[at_++];
  }

  const std::string& text_;
  const Values& values_;
  std::size_t at_ = 0;
};

// "e T q, then e T k", "Kk, or half", "e T F, or 2 e T F with SwiGLU": all values in the text.
std::vector<double> meant(const std::string& cell, const Values& values) {
  std::vector<double> found;
  for (std::size_t from = 0; from < cell.size();) {
    std::size_t to = cell.find_first_of(",;", from);
    if (to == std::string::npos) to = cell.size();
    std::string piece = cell.substr(from, to - from);
    for (const char* word : {" then ", " or "})
      if (piece.rfind(word, 0) == 0) piece = piece.substr(std::string(word).size());
    Formula formula(piece, values);
    const std::optional<double> value = formula.sum();
    if (value) found.push_back(*value);
    if (piece.rfind("half", 0) == 0 && !found.empty()) found.push_back(found.front() / 2);
    from = to + 1;
  }
  return found;
}

struct Line {
  std::string bytes, category;
  int section = 0;
};

std::multimap<std::string, Line> lines() {
  std::ifstream file(REHEARSE_SOURCE_DIR "/sim/program/INVENTORY.md");
  REQUIRE(file.good());
  std::multimap<std::string, Line> found;
  int section = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("## ", 0) == 0) section = std::atoi(line.c_str() + 3);
    if (line.rfind("| `", 0) != 0) continue;
    std::vector<std::string> cells;
    for (std::size_t from = 2; from < line.size();) {
      const std::size_t to = std::min(line.find(" | ", from), line.size());
      cells.push_back(line.substr(from, to - from));
      from = to + 3;
    }
    REQUIRE(cells.size() >= 6);
    found.insert({cells[0].substr(1, cells[0].size() - 2), {cells[1], cells[4], section}});
  }
  return found;
}

// Lines whose text gives the bytes in words ("e x the weight", "profile", "padded"), or that count
// several tensors. Separate tests check them.
const std::set<std::string> in_words = {
    // Tensors of a ring's steps: the size of the step.
    "cuDNN workspace", "dk expanded", "dv expanded", "dq_accum", "softmax_d",
    // Gathered keys up to the chunk's end.
    "keys or values of a chunk", "dk of a chunk", "dv of a chunk",
    // Keys of all heads, after repetition.
    "dk", "dv",
    // Whole numbers of rows.
    "embedding gradient by segment", "sorted ids",
    // Pieces, buffers and sums of parameters.
    "bias gradient", "exp_avg", "exp_avg_sq", "flattened norm gradients", "fp32 gradient copy",
    "fp32 moment",
    "flat gradient of the part", "flat parameters", "flattened bucket", "fp32 gradient of the part",
    "gathered parameters", "gradient in fp32", "gradient in fp64", "gradients of the part",
    "buffer of offloaded gradients", "gradient to the CPU", "reduce bucket", "fp32 main parameter",
    "gradient buffer", "kept gradient handle", "parameter buffer", "shard clone",
    "weight gradient handle",
    // Slices: keys up to a slice, or before it. Two copies: the messages of the mirror.
    "attention mask", "keys of slices", "values of slices", "gradients of earlier keys",
    "gradients of the mirror",
    // Memory of libraries.
    "TransformerEngine workspace", "cuBLAS workspace of the backward thread",
    "cuBLAS workspace of the forward thread"};

}  // namespace

TEST_CASE("program: every allocation has the bytes and the category of its line") {
  const std::multimap<std::string, Line> inventory = lines();
  std::set<std::string> other_bytes, other_category;
  for (const auto& [name, plan] : sample::catalog()) {
    if (plan.shards_parameters()) continue;      // units: fsdp_test.cpp
    if (name.starts_with("mixture:")) continue;  // mixture_test.cpp
    // Widths of a grid: tensor_grid_test.cpp.
    if (plan.mesh.tensor_columns > 1 || plan.mesh.tensor_depth > 1) continue;
    const Values values = values_of(plan);
    std::map<std::string, std::vector<double>> expected;
    for (const auto& [label, line] : inventory)
      for (const double value : meant(line.bytes, values)) expected[label].push_back(value);
    for (const sim::program::Program& program : sample::job(plan).classes)
      for (const Block& block : program.blocks)
        for (const Instruction& i : block.code) {
          if (i.op != Op::alloc) continue;
          const std::string& label = program.labels[i.label];
          bool category = false;
          const auto [begin, end] = inventory.equal_range(label);
          for (auto at = begin; at != end; ++at)
            category =
                category || at->second.category == "as that" ||
                at->second.category.find(sim::program::name(i.category)) != std::string::npos;
          if (!category) other_category.insert(label);
          if (plan.numerics.fp8) continue;  // a byte where the lines say e
          bool bytes = false;
          for (const double value : expected[label])
            bytes = bytes || std::abs(value - static_cast<double>(i.value)) < 1;
          if (!bytes) other_bytes.insert(label);
        }
  }
  CHECK(other_category == std::set<std::string>{});
  CHECK(other_bytes == in_words);
}
