// page_request.cpp — fuzzes the bodies of requests that a page sends to `rehearse serve`: as JSON
// and as lines of text. An accepted request names no file.
#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/command/serve/plan_request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sim::command::web;
  const std::string body(reinterpret_cast<const char*>(data), size);
  for (const bool json : {true, false}) {
    const auto request = plan_request(body, json);
    if (!request) {
      if (request.errors().empty()) __builtin_trap();
      continue;
    }
    if (!request->plan.empty() && !is_plain_name(request->plan)) __builtin_trap();
    for (const std::string& setting : request->settings)
      if (setting.find('=') == std::string::npos || !request_problem(setting).empty())
        __builtin_trap();
  }
  return 0;
}
