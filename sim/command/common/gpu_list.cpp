#include "sim/command/common/gpu_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

#include "sim/command/common/command.h"

namespace sim::command {

std::vector<int> gpu_list(const std::string& text) {
  std::vector<int> all;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto number = [&](std::size_t from, std::size_t to) {
      int value = 0;
      const auto [last, error] = std::from_chars(text.data() + from, text.data() + to, value);
      if (error != std::errc{} || last != text.data() + to || value < 1 || value > 1 << 20)
        throw Stop{
            exit_usage,
            fmt::format("--gpus: '{}' is not a number of GPUs; write for example --gpus 512, "
                        "--gpus 256,512 or --gpus 64..512",
                        text)};
      return value;
    };
    // A range has its first number, doubled as often as it stays in the range.
    const std::size_t dots = std::min(text.find("..", at), end);
    const int least = number(at, dots);
    const int most = dots == end ? least : number(dots + 2, end);
    for (std::int64_t value = least; value <= most; value *= 2)
      all.push_back(static_cast<int>(value));
    if (most < least)
      throw Stop{exit_usage,
                 fmt::format("--gpus: '{}' begins above its end", text.substr(at, end - at))};
    at = end + 1;
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace sim::command
