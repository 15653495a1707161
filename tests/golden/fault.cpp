#include "tests/golden/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <string_view>

namespace golden {
namespace {

constexpr std::size_t counted = std::size_t{1} << 16;  // calls whose kinds are noted

struct Kind {
  const char* way;
  unsigned bit;  // in interpose.cpp's byte of a call; 0: every call can suffer it
};

const std::array<Kind, 6> kinds = {{{"fail", 0},
                                    {"full", 1},
                                    {"short", 2},
                                    {"interrupted", 4},
                                    {"kill-before", 8},
                                    {"kill-after", 8}}};

}  // namespace

Finished with_fault(const Fault& fault, const std::string& command, const std::string& folder) {
  write(folder + "/calls", std::string(sizeof(std::uint64_t) + counted, '\0'));
  const std::string what =
      fault.call == 0 ? "" : fmt::format("FAULT_AT={} FAULT_KIND={} ", fault.call, fault.way);
  // CPU time is bounded as well as waiting: the machine may do other things, too. A program with
  // the address sanitizer needs its library loaded first.
  return run("timeout -k 1 300 prlimit --cpu=60 --core=0 sh -c '" + what +
                 "ASAN_OPTIONS=verify_asan_link_order=0 FAULT_COUNT=\"$PWD/calls\" LD_PRELOAD=" +
                 REHEARSE_FAULTS " exec " + command + "'",
             folder);
}

std::vector<Fault> faults_of(const std::string& command, const std::string& folder) {
  const Finished whole = with_fault({}, command, folder);
  INFO(command << "\n" << whole.err);
  REQUIRE((whole.code == 0 || whole.code == 2));
  const std::string bytes = text_of(folder + "/calls");
  std::uint64_t calls = 0;
  std::memcpy(&calls, bytes.data(), sizeof calls);
  REQUIRE(calls > 0);
  REQUIRE(calls <= counted);
  std::vector<Fault> faults;
  for (std::uint64_t call = 1; call <= calls; ++call) {
    const auto can = static_cast<unsigned char>(bytes.at(sizeof calls + call - 1));
    for (const Kind& kind : kinds)
      if (kind.bit == 0 || (can & kind.bit) != 0) faults.push_back({call, kind.way});
  }
  return faults;
}

bool kills(const Fault& fault) {
  return std::string_view(fault.way).starts_with("kill");
}

std::string told(const Fault& fault, const std::string& problem, const Finished& finished) {
  return fmt::format("call {}, {}: {}, exit {}: {}", fault.call, fault.way, problem, finished.code,
                     finished.err);
}

std::string bad_ending(const Fault& fault, const Finished& finished) {
  constexpr int killed = 128 + 9;
  if (kills(fault) && finished.code == killed) return "";
  constexpr int out_of_cpu_time = 128 + SIGXCPU;
  if (finished.code == 124 || finished.code == killed || finished.code == out_of_cpu_time)
    return told(fault, "never ends", finished);
  constexpr std::array<int, 8> documented = {0, 2, 64, 65, 66, 71, 74, 75};
  if (std::ranges::find(documented, finished.code) == documented.end() ||
      finished.err.find("bug of ours") != std::string::npos)
    return told(fault, "ends badly", finished);
  if (finished.code > 2 && finished.err.empty() && finished.out.empty())
    return told(fault, "says nothing", finished);
  return "";
}

}  // namespace golden
