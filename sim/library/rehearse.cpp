#include "sim/library/rehearse.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "sim/base/program_files.h"
#include "sim/base/turn.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/common/session.h"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

std::atomic<bool (*)()> interrupt = nullptr;

bool interrupted() {
  bool (*const asked)() = interrupt;
  return asked != nullptr && asked();
}

// The data and the helpers are where the program is: in PREFIX/bin of an installed tree, else next
// to this library in a build folder.
void find_program() {
  Dl_info library{};
  if (::dladdr(reinterpret_cast<const void*>(&find_program), &library) == 0) return;
  std::error_code error;
  const fs::path own = fs::canonical(library.dli_fname, error).parent_path();
  if (error) return;
  for (fs::path prefix = own; prefix != prefix.parent_path(); prefix = prefix.parent_path())
    if (fs::is_regular_file(prefix / "bin" / "rehearse", error))
      return sim::set_program_folder(prefix / "bin");
  sim::set_program_folder(own);
}

}  // namespace

Reply ask(const std::string& command, const std::vector<std::string>& arguments) {
  std::optional<sim::Turn> alone;
  try {
    alone.emplace();
  } catch (const std::runtime_error& torn) {
    return {sim::command::exit_system, "", fmt::format("rehearse: {}\n", torn.what())};
  }
  static const bool ready = [] {
    find_program();
    sim::command::leave_interrupts_to(interrupted);
    return true;
  }();
  static_cast<void>(ready);
  sim::command::Reply reply = sim::command::ask(command, arguments);
  return {reply.code, std::move(reply.said.out), std::move(reply.said.err)};
}

void interrupt_when(bool (*asked)()) {
  interrupt = asked;
}

}  // namespace rehearse
