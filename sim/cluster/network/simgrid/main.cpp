// main.cpp — rehearse-network: reads a query (query.h, packets.h) on stdin and prints the end of
// each flow or message. It is the only program that links SimGrid.
//
//     rehearse-network < query           one query, answer as text
//     rehearse-network --serve           framed queries until the input ends (frame.h)
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sim/cluster/network/ns3.h"
#include "sim/cluster/network/simgrid/serve.h"

namespace {

int answer_one() {
  std::string input;
  char buffer[1 << 16];
  while (input.size() <= sim::network::query_text_limit) {
    const std::size_t got = std::fread(buffer, 1, sizeof buffer, stdin);
    if (got == 0) break;
    input.append(buffer, got);
  }
  const auto answer = sim::network::answer_of(input);
  if (const auto* problem = std::get_if<std::string>(&answer)) {
    std::fprintf(stderr, "rehearse-network: %s\n", problem->c_str());
    return 65;
  }
  const std::string text = sim::network::text(std::get<sim::network::Finish>(answer));
  std::fwrite(text.data(), 1, text.size(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 74;
}

}  // namespace

int main(int count, char** arguments) {
  // The libraries are loaded already, so the process restarts itself with the variable set.
  if (std::getenv(sim::network::ns3_variable) == nullptr) {
    ::setenv(sim::network::ns3_variable, sim::network::ns3_defaults, 1);
    ::execv("/proc/self/exe", arguments);
  }
  if (count == 1) return answer_one();
  if (count == 2 && std::strcmp(arguments[1], "--serve") == 0) return sim::network::serve();
  std::fputs("usage: rehearse-network [--serve] < query\n", stderr);
  return 64;
}
