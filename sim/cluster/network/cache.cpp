#include "sim/cluster/network/cache.h"

// xxhash is compiled in (header only), so the program needs no library for it at start.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "sim/base/whole_file.h"

namespace sim::network {
namespace {

constexpr std::size_t entry_limit = std::size_t{1} << 26;

std::string hex(XXH128_hash_t hash) {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text.data();
}

std::string hash_of(const std::string& text) {
  return hex(XXH3_128bits(text.data(), text.size()));
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string Cache::path(const std::string& query_text) const {
  return folder_ + "/network-" + hash_of(query_text) + ".txt";
}

std::optional<Finish> Cache::find(const std::string& query_text) const {
  if (folder_.empty()) return std::nullopt;
  std::error_code error;
  const std::string file = path(query_text);
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  if (std::filesystem::file_size(file, error) > entry_limit || error) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  std::string checksum;
  if (!std::getline(in, checksum)) return std::nullopt;
  const std::string answer((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (checksum != hash_of(answer)) return std::nullopt;
  auto finish = parse_finish(answer);
  if (Finish* good = std::get_if<Finish>(&finish)) return std::move(*good);
  return std::nullopt;
}

void Cache::put(const std::string& query_text, const Finish& finish) const {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return;
  const std::string answer = text(finish);
  // Readers check the content, and an entry that cannot be written is computed again.
  [[maybe_unused]] const std::string ignored =
      write_whole(path(query_text), hash_of(answer) + "\n" + answer, /*durable=*/false);
}

std::string default_cache_folder() {
  if (std::getenv("REHEARSE_CACHE") != nullptr) return environment("REHEARSE_CACHE");
  if (const std::string base = environment("XDG_CACHE_HOME"); !base.empty()) {
    return base + "/rehearse";
  }
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/rehearse";
}

}  // namespace sim::network
