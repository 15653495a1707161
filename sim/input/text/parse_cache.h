// parse_cache.h — what was read from a text, kept for the next who reads the same text: a process
// that asks many questions names the same files in each. The key holds all that the answer rests
// on, so what is kept is never old.
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
