// parse_cache.h — thread-safe cache of parsed values, for processes that read the same files
// repeatedly.
//
// Loaders of models and clusters use it. The key contains everything that the value depends on, so
// an entry never becomes stale. A cache holds at most 64 entries and is emptied when full.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace sim::input {

template <typename Value>
class ParseCache {
 public:
  std::optional<Value> find(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  void add(const std::string& key, const Value& value) {
    const std::lock_guard lock(mutex_);
    if (values_.size() >= most) values_.clear();
    values_.insert_or_assign(key, value);
  }

 private:
  static constexpr std::size_t most = 64;
  mutable std::mutex mutex_;
  std::map<std::string, Value> values_;
};

}  // namespace sim::input
