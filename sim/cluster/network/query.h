// query.h — the solver's input: flows that cross links at the same time; and its output: the end of
// each flow.
//
// A flow moves `bytes` over every link that it uses, at one rate. A link of weight w loses w times
// that rate. A ring of n ranks is one flow that crosses the links of all its n edges, because its
// edges advance together, at the pace of the slowest. Rates are max-min fair among the flows.
//
// Invariants: capacities and bytes are finite and positive, weights are positive, and the links of
// a flow are distinct and in range. In the text form links ascend.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/quantity.h"

namespace sim::network {

struct Use {
  int link = 0;
  int weight = 1;
  friend bool operator==(const Use&, const Use&) = default;
  friend auto operator<=>(const Use&, const Use&) = default;
};

struct Flow {
  double bytes = 0;
  std::vector<Use> uses;
  friend bool operator==(const Flow&, const Flow&) = default;
};

struct Query {
  std::vector<double> capacities;  // by link, bytes per second
  std::vector<Flow> flows;
  friend bool operator==(const Query&, const Query&) = default;
};

// Seconds until each flow has ended; all start at 0.
using Finish = std::vector<double>;

// The maximum length of a query in bytes of text.
constexpr std::size_t query_text_limit = std::size_t{1} << 28;

std::string text(const Query& query);
Parsed<Query> parse_query(std::string_view text);

// "ok 2\n0.5\n1.5\n"; a failure is "error <reason>\n".
std::string text(const Finish& finish);
Parsed<Finish> parse_finish(std::string_view text);

}  // namespace sim::network
