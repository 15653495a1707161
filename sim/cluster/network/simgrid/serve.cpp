#include "sim/cluster/network/simgrid/serve.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <vector>

#include "sim/base/cores.h"
#include "sim/cluster/network/frame.h"
#include "sim/cluster/network/simgrid/engine.h"
#include "sim/cluster/network/simgrid/packets.h"

namespace sim::network {
namespace {

// A child that works on one query and writes its answer into a pipe.
struct Child {
  pid_t pid = 0;
  int pipe = -1;
  std::uint64_t id = 0;
  std::string answer;
};

bool write_all(int out, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(out, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::string reply(const std::string& request) {
  const std::variant<Finish, std::string> answer = answer_of(request);
  if (const auto* problem = std::get_if<std::string>(&answer)) return "error " + *problem + "\n";
  return text(std::get<Finish>(answer));
}

class Server {
 public:
  int run() {
    ::signal(SIGPIPE, SIG_IGN);
    while (!(input_ended_ && waiting_.empty() && children_.empty())) {
      while (!waiting_.empty() && children_.size() < most_) start(waiting_.front());
      if (!wait_for_something()) return 74;
      if (!buffer_.good()) return 65;
    }
    return 0;
  }

 private:
  void start(const Frame& frame) {
    int ends[2];
    Child child;
    child.id = frame.id;
    if (::pipe(ends) == 0) {
      child.pid = ::fork();
      if (child.pid == 0) {
        ::close(ends[0]);
        ::_exit(write_all(ends[1], reply(frame.text)) ? 0 : 1);
      }
      ::close(ends[1]);
      child.pipe = ends[0];
    }
    if (child.pipe < 0 || child.pid < 0) {
      if (child.pipe >= 0) ::close(child.pipe);
      write_all(STDOUT_FILENO, encode({frame.id, "error no process for the query\n"}));
    } else {
      children_.push_back(std::move(child));
    }
    waiting_.pop_front();
  }

  bool wait_for_something() {
    std::vector<pollfd> watched;
    for (const Child& child : children_) watched.push_back({child.pipe, POLLIN, 0});
    if (!input_ended_) watched.push_back({STDIN_FILENO, POLLIN, 0});
    if (watched.empty()) return true;
    if (::poll(watched.data(), static_cast<nfds_t>(watched.size()), -1) < 0) return errno == EINTR;
    bool good = true;
    for (std::size_t i = children_.size(); i-- > 0;) {
      if (watched[i].revents != 0) good = read_child(i) && good;
    }
    if (!input_ended_ && watched.back().revents != 0) read_input();
    return good;
  }

  bool read_child(std::size_t index) {
    Child& child = children_[index];
    char bytes[1 << 16];
    const ssize_t n = ::read(child.pipe, bytes, sizeof bytes);
    if (n > 0) {
      child.answer.append(bytes, static_cast<std::size_t>(n));
      return true;
    }
    if (n < 0 && errno == EINTR) return true;
    ::close(child.pipe);
    int status = 0;
    while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
    }
    const bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const bool sent =
        write_all(STDOUT_FILENO,
                  encode({child.id, fine ? child.answer : "error the solver's process died\n"}));
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(index));
    return sent;
  }

  void read_input() {
    char bytes[1 << 16];
    const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
      input_ended_ = true;
      return;
    }
    buffer_.append(bytes, static_cast<std::size_t>(n));
    while (auto frame = buffer_.next()) waiting_.push_back(std::move(*frame));
  }

  const std::size_t most_ = static_cast<std::size_t>(cores());
  bool input_ended_ = false;
  FrameBuffer buffer_;
  std::deque<Frame> waiting_;
  std::vector<Child> children_;
};

}  // namespace

std::variant<Finish, std::string> answer_of(const std::string& request) {
  if (request.starts_with(packets_word)) {
    const auto query = parse_packets(request);
    if (const auto* problem = std::get_if<std::string>(&query)) return *problem;
    return simulate_packets(std::get<PacketQuery>(query));
  }
  const auto query = parse_query(request);
  if (const auto* problem = std::get_if<std::string>(&query)) return *problem;
  return solve_with_simgrid(std::get<Query>(query));
}

int serve() {
  return Server().run();
}

}  // namespace sim::network
