#include "sim/allocator/options.h"

#include <bit>
#include <cassert>
#include <charconv>
#include <optional>
#include <vector>

#include "sim/base/text.h"

namespace sim::allocator {
namespace {

struct Item {
  std::string_view key;
  std::string_view value;
  int column = 0;
};

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = {
      "backend",
      "expandable_segments",
      "expandable_segments_reserve",
      "expandable_segments_reserve_by_class",
      "garbage_collection_threshold",
      "graph_capture_record_stream_reuse",
      "large_segment_size_mb",
      "max_non_split_rounding_mb",
      "max_split_size_mb",
      "per_process_memory_fraction",
      "pinned_free_catch_all",
      "pinned_max_register_threads",
      "pinned_num_register_threads",
      "pinned_reserve_segment_size_mb",
      "pinned_use_background_threads",
      "pinned_use_cuda_host_register",
      "release_lock_on_cudamalloc",
      "release_lock_on_hipmalloc",
      "roundup_power2_divisions",
      "throw_on_cudamalloc_oom",
  };
  return keys;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

template <class Number>
std::optional<Number> read(std::string_view text) {
  Number number{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end != last) return std::nullopt;
  return number;
}

bool power_of_two(std::int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

// Parses one list of items into options and collects every error.
class Parser {
 public:
  Parser(std::string_view conf, Rules rules, const Options& current, std::string_view where,
         int first_column)
      : conf_(conf), rules_(rules), options_(current), where_(where), first_column_(first_column) {
    options_.max_split_size = unlimited;
    options_.roundup_divisions = {};
    options_.garbage_collection_threshold = 0.0;
    options_.text = std::string(conf);
  }

  Result<Options> parse() {
    for (const Item& item : items()) apply(item);
    // This limit depends on another key, which may come before or after it.
    if (rules_ == Rules::newer && max_split_column_ != 0 &&
        options_.max_split_size < options_.large_segment) {
      fail(max_split_column_, "max_split_size_mb must be at least the large segment size, " +
                                  std::to_string(options_.large_segment / megabyte));
    }
    if (!errors_.empty()) return errors_;
    return options_;
  }

 private:
  void fail(int column, const std::string& message) {
    if (errors_.size() < 20) {
      errors_.push_back({std::string(where_) + ":" + std::to_string(column), message});
    }
  }

  // Splits at commas outside brackets; a key ends at the first colon.
  std::vector<Item> items() {
    std::vector<Item> found;
    if (trim(conf_).empty() || trim(conf_) == "-") return found;
    std::size_t begin = 0;
    int depth = 0;
    for (std::size_t i = 0; i <= conf_.size(); ++i) {
      const char c = i < conf_.size() ? conf_[i] : ',';
      if (c == '[') ++depth;
      if (c == ']') --depth;
      if (i < conf_.size() && (c != ',' || depth > 0)) continue;
      add_item(found, begin, i);
      begin = i + 1;
    }
    return found;
  }

  void add_item(std::vector<Item>& found, std::size_t begin, std::size_t end) {
    const std::string_view text = trim(conf_.substr(begin, end - begin));
    const int column = text.empty()
                           ? column_of(begin)
                           : column_of(static_cast<std::size_t>(text.data() - conf_.data()));
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) {
      fail(column, "\"" + std::string(text.substr(0, 40)) + "\" is not key:value");
      return;
    }
    found.push_back({trim(text.substr(0, colon)), trim(text.substr(colon + 1)), column});
  }

  int column_of(std::size_t offset) const { return first_column_ + static_cast<int>(offset); }

  void apply(const Item& item) {
    const std::string_view key = item.key;
    if (key == "max_split_size_mb") return max_split_size(item);
    if (key == "max_non_split_rounding_mb") return max_non_split_rounding(item);
    if (key == "large_segment_size_mb") return large_segment(item);
    if (key == "roundup_power2_divisions") return divisions(item);
    if (key == "garbage_collection_threshold") return threshold(item);
    if (key == "per_process_memory_fraction") return fraction(item);
    if (key == "expandable_segments") return boolean(item, options_.expandable_segments);
    if (key == "expandable_segments_reserve") return reserve(item);
    if (key == "backend") return backend(item);
    if (key == "release_lock_on_cudamalloc" || key == "release_lock_on_hipmalloc") {
      return boolean(item, options_.release_lock_on_cudamalloc);
    }
    if (key == "graph_capture_record_stream_reuse") {
      return boolean(item, options_.graph_capture_record_stream_reuse);
    }
    if (key == "throw_on_cudamalloc_oom") return boolean(item, options_.throw_on_cudamalloc_oom);
    if (key == "pinned_use_cuda_host_register") {
      return boolean(item, options_.pinned_use_cuda_host_register);
    }
    if (key == "pinned_num_register_threads") return register_threads(item);
    for (const std::string& known : known_keys()) {
      if (known == key) return;  // affects only pinned host memory or address classes
    }
    fail(item.column, "unknown allocator option \"" + std::string(key.substr(0, 60)) + "\"" +
                          did_you_mean(key.substr(0, 60), known_keys()));
  }

  // A whole number of MiB in [low, high], as bytes.
  std::optional<std::int64_t> mebibytes(const Item& item, std::int64_t low) {
    constexpr std::int64_t high = largest_request / megabyte;
    const auto value = read<std::int64_t>(item.value);
    if (!value || *value < low || *value > high) {
      fail(item.column, std::string(item.key) + " must be a whole number of MiB from " +
                            std::to_string(low) + " to " + std::to_string(high) + ", not \"" +
                            std::string(item.value.substr(0, 40)) + "\"");
      return std::nullopt;
    }
    return *value * megabyte;
  }

  void max_split_size(const Item& item) {
    const auto bytes = mebibytes(item, rules_ == Rules::newer ? 1 : 21);
    if (!bytes) return;
    options_.max_split_size = *bytes;
    max_split_column_ = item.column;
  }

  void max_non_split_rounding(const Item& item) {
    const auto bytes = mebibytes(item, 20);
    if (!bytes) return;
    if (rules_ == Rules::v2_4_0) {
      fail(item.column, "max_non_split_rounding_mb does not exist in 2.4.0");
      return;
    }
    options_.max_non_split_rounding = *bytes;
  }

  void large_segment(const Item& item) {
    const auto bytes = mebibytes(item, 11);
    if (!bytes) return;
    if (rules_ == Rules::v2_4_0) {
      fail(item.column, "large_segment_size_mb does not exist in 2.4.0");
      return;
    }
    options_.large_segment = *bytes;
  }

  void threshold(const Item& item) {
    const auto value = read<double>(item.value);
    if (!value || !(*value > 0.0 && *value < 1.0)) {
      fail(item.column, "garbage_collection_threshold must lie between 0 and 1, both excluded");
      return;
    }
    options_.garbage_collection_threshold = *value;
  }

  void fraction(const Item& item) {
    const auto value = read<double>(item.value);
    if (!value || !(*value >= 0.0 && *value <= 1.0)) {
      fail(item.column, "per_process_memory_fraction must lie in [0, 1]");
      return;
    }
    options_.per_process_memory_fraction = *value;
  }

  // A fraction of device memory ("0.5") or an amount ("40G").
  void reserve(const Item& item) {
    std::string_view text = item.value;
    std::optional<double> unit;
    if (text.ends_with('G') || text.ends_with('M')) {
      unit = static_cast<double>(text.back() == 'G' ? 1024 * megabyte : megabyte);
      text.remove_suffix(1);
    }
    const double largest = unit ? static_cast<double>(largest_request) / *unit : 1.125;
    const auto value = read<double>(text);
    if (!value || !(*value > 0.0 && *value <= largest)) {
      fail(item.column, "expandable_segments_reserve must be a fraction up to 1.125 or an amount");
      return;
    }
    options_.expandable_reserve_fraction = unit ? 0.0 : *value;
    options_.expandable_reserve_bytes =
        unit ? static_cast<std::int64_t>(*value * *unit) : std::int64_t{0};
  }

  void boolean(const Item& item, bool& target) {
    if (item.value == "True") {
      target = true;
    } else if (item.value == "False") {
      target = false;
    } else {
      fail(item.column, std::string(item.key) + " must be True or False");
    }
  }

  void backend(const Item& item) {
    if (item.value == "native") return;
    fail(item.column, item.value == "cudaMallocAsync"
                          ? std::string("backend cudaMallocAsync is not modelled; write native")
                          : std::string("backend must be native"));
  }

  void register_threads(const Item& item) {
    const auto value = read<int>(item.value);
    if (!value || *value < 1 || *value > 128) {
      fail(item.column, "pinned_num_register_threads must be a number from 1 to 128");
      return;
    }
    options_.pinned_num_register_threads = *value;
  }

  static std::optional<int> division(std::string_view text) {
    const auto value = read<int>(text);
    if (!value || *value > (1 << 20) || (*value != 0 && !power_of_two(*value))) return std::nullopt;
    return value;
  }

  void divisions(const Item& item) {
    std::array<int, 16>& table = options_.roundup_divisions;
    if (item.value.empty() || item.value.front() != '[') {
      const auto value = division(item.value);
      if (!value || *value == 0) {
        fail(item.column, "roundup_power2_divisions must be a power of two or a [MiB:n,...] list");
        return;
      }
      table.fill(*value);
      return;
    }
    if (item.value.back() != ']') {
      fail(item.column, "the list of roundup_power2_divisions has no closing ]");
      return;
    }
    division_list(item, item.value.substr(1, item.value.size() - 2));
  }

  void division_list(const Item& item, std::string_view rest) {
    std::array<int, 16>& table = options_.roundup_divisions;
    bool first = true;
    std::size_t last = 0;
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      const std::string_view pair = trim(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
      const std::size_t colon = pair.find(':');
      const std::string_view name = trim(pair.substr(0, colon));
      const auto value =
          colon == std::string_view::npos ? std::nullopt : division(trim(pair.substr(colon + 1)));
      const auto size = read<std::int64_t>(name);
      const bool tail = name == ">";
      if (!value || (!tail && (!size || !power_of_two(*size)))) {
        fail(item.column, "roundup_power2_divisions: \"" + std::string(pair.substr(0, 40)) +
                              "\" is not MiB:n, both powers of two");
        return;
      }
      if (tail) {
        // 2.4.0 overwrites the last named entry as well.
        const std::size_t from = rules_ == Rules::newer && !first ? last + 1 : last;
        for (std::size_t i = from; i < table.size(); ++i) table[i] = *value;
        continue;
      }
      last = std::min<std::size_t>(
          static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(*size)) - 1), 15);
      for (std::size_t i = 0; first && i < last; ++i) table[i] = *value;
      table[last] = *value;
      first = false;
    }
  }

  std::string_view conf_;
  Rules rules_;
  Options options_;
  std::string_view where_;
  int first_column_;
  int max_split_column_ = 0;
  Diagnostics errors_;
};

}  // namespace

Result<Options> parse_options(std::string_view conf, Rules rules, const Options& current,
                              std::string_view where, int first_column) {
  return Parser(conf, rules, current, where, first_column).parse();
}

std::int64_t round_size(std::int64_t n, const Options& options) {
  assert(n > 0);
  assert(n <= largest_request);
  if (n < minimum_block) return minimum_block;
  const auto log2 = static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(n)) - 1);
  const std::size_t entry = log2 < 20 ? 0 : std::min<std::size_t>(log2 - 20, 15);
  const std::int64_t divisions = options.roundup_divisions[entry];
  if (divisions > 1 && n > minimum_block * divisions) {
    // n > 512 * divisions, so a step is at least 512 bytes and a power of two.
    const std::int64_t step = (std::int64_t{1} << log2) / divisions;
    return (n + step - 1) / step * step;
  }
  return whole_blocks(n);
}

}  // namespace sim::allocator
