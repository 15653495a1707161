#include "sim/cluster/network/solver.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "sim/base/program_files.h"
#include "sim/cluster/network/frame.h"
#include "sim/cluster/network/ns3.h"
#include "sim/cluster/network/reduce.h"

extern char** environ;

namespace sim::network {
namespace {

std::string find_helper(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  const char* given = std::getenv("REHEARSE_NETWORK");
  return given != nullptr && *given != 0 ? given : program_part("rehearse-network");
}

Diagnostics failure(std::string message) {
  return {{"network", std::move(message)}};
}

}  // namespace

Solver::Solver(SolverOptions options) : options_(std::move(options)), cache_(options_.cache) {}

Solver::~Solver() {
  stop();
}

void Solver::stop() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  // After a fork the helper belongs to the parent, so it is left running.
  if (helper_ > 0 && owner_ == ::getpid()) {
    ::kill(helper_, SIGTERM);
    while (::waitpid(helper_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  helper_ = -1;
}

std::string Solver::start() {
  if (helper_ > 0 && owner_ == ::getpid()) return "";
  stop();
  const std::string path = find_helper(options_.helper);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return std::string("no socket for rehearse-network: ") + std::strerror(errno);
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::string program = path, serve = "--serve";
  std::array<char*, 3> arguments = {program.data(), serve.data(), nullptr};
  std::string defaults = std::string(ns3_variable) + "=" + ns3_defaults;
  std::vector<char*> variables = {defaults.data()};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view one(*variable);
    if (!one.starts_with(std::string(ns3_variable) + "=")) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  const int error =
      ::posix_spawn(&helper_, path.c_str(), &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    helper_ = -1;
    return "cannot start " + path + ": " + std::strerror(error) +
           "; build rehearse-network, or say where it is with REHEARSE_NETWORK";
  }
  socket_ = ends[0];
  ::fcntl(socket_, F_SETFL, O_NONBLOCK);
  owner_ = ::getpid();
  ++started_;
  return "";
}

// Sends and receives until every query has its answer.
std::string Solver::converse(std::string outgoing, std::vector<bool>& answered,
                             std::vector<Finish>& answers) {
  FrameBuffer buffer;
  std::size_t sent = 0;
  auto waiting = std::ranges::count(answered, false);
  while (waiting > 0) {
    pollfd watched{socket_, POLLIN, 0};
    if (sent < outgoing.size()) watched.events |= POLLOUT;
    const int ready = ::poll(&watched, 1, static_cast<int>(options_.patience.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return "rehearse-network gave no answer in time";
    if ((watched.revents & POLLOUT) != 0) {
      const ssize_t n =
          ::send(socket_, outgoing.data() + sent, outgoing.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN && errno != EINTR) return "rehearse-network died";
      if (n > 0) sent += static_cast<std::size_t>(n);
    }
    if ((watched.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    std::array<char, 1 << 16> bytes;
    const ssize_t n = ::read(socket_, bytes.data(), bytes.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) return "rehearse-network died";
    buffer.append(bytes.data(), static_cast<std::size_t>(n));
    while (const auto frame = buffer.next()) {
      if (frame->id >= answers.size() || answered[frame->id]) {
        return "rehearse-network answered what it was not asked";
      }
      auto finish = parse_finish(frame->text);
      if (const auto* problem = std::get_if<std::string>(&finish)) {
        return "rehearse-network: " + *problem;
      }
      answers[frame->id] = std::get<Finish>(std::move(finish));
      answered[frame->id] = true;
      --waiting;
    }
    if (!buffer.good()) return "rehearse-network sent something else than frames";
  }
  return "";
}

std::string Solver::ask(const std::vector<std::string>& texts, std::vector<Finish>& answers) {
  std::vector<bool> answered(texts.size(), false);
  std::string problem;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (problem = start(); !problem.empty()) return problem;
    std::string outgoing;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (!answered[i]) outgoing += encode({i, texts[i]});
    }
    if (problem = converse(std::move(outgoing), answered, answers); problem.empty()) break;
    stop();
  }
  asked_ += static_cast<int>(std::ranges::count(answered, true));
  return problem;
}

Result<std::vector<Finish>> Solver::solve(std::span<const Query> queries) {
  std::vector<Reduced> reduced;
  std::vector<Finish> finish(queries.size());
  std::vector<std::string> texts;
  std::vector<std::size_t> open;  // queries that the helper must answer
  for (std::size_t i = 0; i < queries.size(); ++i) {
    reduced.push_back(options_.reduce ? reduce(queries[i]) : unreduced(queries[i]));
    if (reduced[i].query.flows.empty()) continue;
    std::string key = text(reduced[i].query);
    if (auto known = cache_.find(key); known && known->size() == reduced[i].query.flows.size()) {
      finish[i] = std::move(*known);
      continue;
    }
    texts.push_back(std::move(key));
    open.push_back(i);
  }
  std::vector<Finish> answers(texts.size());
  if (!texts.empty()) {
    if (std::string problem = ask(texts, answers); !problem.empty()) return failure(problem);
  }
  for (std::size_t k = 0; k < open.size(); ++k) {
    if (answers[k].size() != reduced[open[k]].query.flows.size()) {
      return failure("rehearse-network answered for other flows than it was asked");
    }
    cache_.put(texts[k], answers[k]);
    finish[open[k]] = std::move(answers[k]);
  }
  for (std::size_t i = 0; i < queries.size(); ++i) finish[i] = expand(reduced[i], finish[i]);
  return finish;
}

Result<Finish> Solver::solve(const Query& query) {
  auto all = solve(std::span(&query, 1));
  if (!all) return all.errors();
  return (*all)[0];
}

Result<Finish> Solver::simulate(const PacketQuery& query) {
  const std::string key = text(query);
  if (const auto known = cache_.find(key); known && known->size() == query.messages.size())
    return *known;
  std::vector<Finish> answers(1);
  if (std::string problem = ask({key}, answers); !problem.empty()) return failure(problem);
  if (answers[0].size() != query.messages.size())
    return failure("rehearse-network answered for other messages than it was asked");
  cache_.put(key, answers[0]);
  return answers[0];
}

}  // namespace sim::network
