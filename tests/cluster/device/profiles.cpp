#include "profiles.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <variant>
#include <vector>

#include "sim/base/quantity.h"

namespace sim::device::profiles {

namespace {

// A message: fields by name, each with its values in order; a value is text or a message.
struct Node {
  std::string text;
  std::map<std::string, std::vector<Node>> fields;

  const std::vector<Node>& all(const std::string& name) const {
    static const std::vector<Node> none;
    const auto found = fields.find(name);
    return found == fields.end() ? none : found->second;
  }
  const Node& one(const std::string& name) const {
    INFO("field " << name);
    REQUIRE(all(name).size() == 1);
    return all(name).front();
  }
  double number(const std::string& name) const { return std::stod(one(name).text); }
  Duration duration(const std::string& name) const {
    return std::get<Duration>(parse_duration(one(name).text));
  }
  Bytes bytes(const std::string& name) const {
    return std::get<Bytes>(parse_bytes(one(name).text));
  }
};

// Words, punctuation and whole strings (without their quotes, marked by a leading quote).
std::vector<std::string> tokens(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"') {
      const std::size_t end = text.find('"', i + 1);
      out.push_back(text.substr(i, end - i));
      i = end + 1;
    } else if (std::string("{}[]:,").find(c) != std::string::npos) {
      out.emplace_back(1, c);
      ++i;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      ++i;
    } else {
      const std::size_t end = text.find_first_of(" \n\t{}[]:,#\"", i);
      out.push_back(text.substr(i, end - i));
      i = end;
    }
  }
  return out;
}

Node parse_scalar(const std::vector<std::string>& t, std::size_t& i) {
  Node node;
  if (t.at(i)[0] != '"') return node.text = t.at(i++), node;
  while (i < t.size() && t[i][0] == '"') node.text += t[i++].substr(1);  // adjacent strings join
  return node;
}

Node parse_message(const std::vector<std::string>& t, std::size_t& i) {
  Node node;
  while (i < t.size() && t[i] != "}") {
    const std::string name = t.at(i++);
    std::vector<Node>& values = node.fields[name];
    if (t.at(i) == ":") ++i;
    if (t.at(i) == "{") {
      values.push_back(parse_message(t, ++i));
      ++i;
    } else if (t.at(i) == "[") {
      for (++i; t.at(i) != "]";) {
        if (t.at(i) == ",") ++i;
        values.push_back(parse_scalar(t, i));
      }
      ++i;
    } else {
      values.push_back(parse_scalar(t, i));
    }
  }
  return node;
}

model::Precision precision(const std::string& name) {
  using model::Precision;
  static const std::map<std::string, Precision> names = {{"bf16", Precision::bf16},
                                                         {"fp16", Precision::fp16},
                                                         {"tf32", Precision::tf32},
                                                         {"fp32", Precision::fp32},
                                                         {"fp8", Precision::fp8}};
  return names.at(name);
}

GemmProfile gemm(const Node& node) {
  GemmProfile g;
  for (const Node& p : node.all("peaks")) {
    g.peaks.push_back({precision(p.one("precision").text), p.number("fraction")});
  }
  for (const Node& t : node.all("tiles")) {
    g.tiles.push_back({static_cast<std::int64_t>(t.number("m")),
                       static_cast<std::int64_t>(t.number("n")), t.number("efficiency")});
  }
  g.split_k.clear();
  for (const Node& s : node.all("split_k")) g.split_k.push_back(std::stoll(s.text));
  g.sustained = node.number("sustained");
  g.wave_quantisation = node.number("wave_quantisation");
  g.ramp_k = node.number("ramp_k");
  g.forward = node.number("forward");
  g.input_gradient = node.number("input_gradient");
  g.weight_gradient = node.number("weight_gradient");
  g.exposed_accumulation = node.number("exposed_accumulation");
  g.hbm = node.number("hbm");
  return g;
}

AttentionPass attention_pass(const Node& node) {
  const auto heads = [&](const std::string& name) {
    std::vector<HeadEfficiency> table;
    for (const Node& h : node.all(name)) {
      table.push_back({static_cast<std::int64_t>(h.number("head_dim")), h.number("fraction")});
    }
    return table;
  };
  return {heads("full"), heads("causal"), node.number("ramp_keys"), node.number("ramp_keys_causal"),
          node.number("tail")};
}

}  // namespace

Profile load(const std::string& name) {
  std::ifstream in(std::string(REHEARSE_SOURCE_DIR) + "/calibration/" + name + ".textproto");
  REQUIRE(in);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::size_t at = 0;
  const Node file = parse_message(tokens(text), at);
  Profile p;
  p.name = file.one("name").text;
  p.kernel_overhead = file.duration("kernel_overhead");
  p.gemm = gemm(file.one("gemm"));
  for (const Node& a : file.all("attention")) {
    AttentionProfile attention;
    attention.implementation = a.one("implementation").text;
    attention.sustained = a.number("sustained");
    attention.forward = attention_pass(a.one("forward"));
    attention.backward = attention_pass(a.one("backward"));
    attention.block_queries = static_cast<std::int64_t>(a.number("block_queries"));
    attention.hbm = a.number("hbm");
    p.attention.push_back(attention);
  }
  const auto memory_bound = [&](const std::string& kind) -> MemoryBoundProfile {
    return {file.one(kind).number("hbm"), file.one(kind).bytes("ramp")};
  };
  p.norm = memory_bound("norm");
  p.elementwise = memory_bound("elementwise");
  p.softmax = memory_bound("softmax");
  p.copy = memory_bound("copy");
  p.reduction = memory_bound("reduction");
  p.optimizer = memory_bound("optimizer");
  p.embedding = memory_bound("embedding");
  return p;
}

Profile with_attention(const std::string& name, const std::string& figure) {
  static const std::map<std::string, std::string> implementations = {
      {"FlashAttention", "flash-attention-1"},
      {"FlashAttention-2", "flash-attention-2"},
      {"FlashAttention-3", "flash-attention-3"},
      {"cuDNN", "cudnn"}};
  Profile p = load(name);
  const auto found = std::find_if(p.attention.begin(), p.attention.end(), [&](const auto& a) {
    return a.implementation == implementations.at(figure);
  });
  REQUIRE(found != p.attention.end());
  std::iter_swap(p.attention.begin(), found);
  p.attention.front().sustained = 1;  // figures are short benchmarks
  return p;
}

Gpu a100() {
  Gpu g;
  g.name = "A100-SXM4-80GB";
  g.hbm = {2'039'000'000'000};
  g.sms = 108;
  g.bf16_flops = 312e12;
  return g;
}

Gpu h100() {
  Gpu g;
  g.name = "H100-SXM5-80GB";
  g.hbm = {3'350'000'000'000};
  g.sms = 132;
  g.bf16_flops = 989.4e12;
  return g;
}

}  // namespace sim::device::profiles
