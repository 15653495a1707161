#include "sim/command/serve/workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "sim/base/descriptor.h"

namespace sim::command::web {

namespace {

namespace asio = boost::asio;
using Stream = asio::local::stream_protocol::socket;
using Clock = std::chrono::steady_clock;

constexpr char told_kind = 't', done_kind = 'd';
constexpr std::size_t message_bytes_most = std::size_t{256} << 20;
// A worker that ends this soon after its start, without a job, is started again only after a pause.
constexpr std::chrono::seconds soon{1};

// Before each text: its kind and its size.
struct Head {
  char kind = told_kind;
  std::uint64_t bytes = 0;
};

bool write_exactly(int descriptor, const char* at, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t put = ::send(descriptor, at, bytes, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

bool send(int descriptor, char kind, std::string_view text) {
  Head head;
  head.kind = kind;
  head.bytes = text.size();
  return write_exactly(descriptor, reinterpret_cast<const char*>(&head), sizeof head) &&
         write_exactly(descriptor, text.data(), text.size());
}

// The loop of a worker, until the server closes its end.
[[noreturn]] void serve(int descriptor, const WorkerLimits& limits,
                        const std::function<void()>& begin, const Work& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);  // so that a kill also ends the processes that a search starts
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGHUP, SIG_DFL);
  std::signal(SIGINT, SIG_IGN);  // only a search stops on it
  const rlimit none{0, 0},
      space{static_cast<rlim_t>(limits.memory.n), static_cast<rlim_t>(limits.memory.n)};
  ::setrlimit(RLIMIT_CORE, &none);
  ::setrlimit(RLIMIT_AS, &space);
  try {
    begin();
    Head head;
    while (read_exactly(descriptor, &head, sizeof head)) {
      std::string request(head.bytes, '\0');
      if (!read_exactly(descriptor, request.data(), request.size())) break;
      const std::string answer =
          work(request, [&](std::string_view text) { send(descriptor, told_kind, text); });
      if (!send(descriptor, done_kind, answer)) break;
    }
  } catch (const std::exception&) {
    ::_exit(1);  // no memory even for a message
  }
  ::_exit(0);
}

// Kills a worker and the processes that it started; its status for waitpid's macros.
int end_process(pid_t process) {
  int status = 0;
  ::kill(-process, SIGKILL);
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

Reply reply_of(std::string text) {
  Reply reply;
  const std::size_t line = text.find('\n');
  if (line == std::string::npos ||
      std::from_chars(text.data(), text.data() + line, reply.status).ec != std::errc{})
    return problem(500, "a worker gave no answer");
  reply.body = text.substr(line + 1);
  return reply;
}

}  // namespace

struct Workers::Worker {
  explicit Worker(asio::io_context& context) : stream(context), timer(context) {}

  pid_t process = -1;
  Stream stream;
  asio::steady_timer timer;
  Clock::time_point started;
  std::optional<Queued> job;
  bool too_long = false;
  Head head;
  std::string text;
  std::uint64_t life = 0;  // number of its process, to ignore events of an earlier one
};

Workers::Workers(asio::io_context& context, WorkerLimits limits, std::function<void()> begin,
                 Work work)
    : context_(context), limits_(limits), begin_(std::move(begin)), work_(std::move(work)) {
  for (int i = 0; i < limits_.workers; ++i) {
    workers_.push_back(std::make_unique<Worker>(context_));
    start(*workers_.back());
  }
}

Workers::~Workers() {
  stop();
}

void Workers::start(Worker& worker) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "no worker");
  const pid_t process = ::fork();
  if (process < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    throw std::system_error(error, std::generic_category(), "no worker");
  }
  if (process == 0) {
    // The worker must not hold connections of the server or of its clients.
    constexpr int own = 3;
    if (ends[1] != own) ::dup3(ends[1], own, O_CLOEXEC);
    ::close_range(own + 1, ~0U, 0);
    serve(own, limits_, begin_, work_);
  }
  ::close(ends[1]);
  ::setpgid(process, process);  // the worker does it too: either may be first
  try {
    worker.stream = Stream(context_, asio::local::stream_protocol(), ends[0]);
  } catch (const boost::system::system_error& error) {
    ::close(ends[0]);
    end_process(process);
    throw std::system_error(error.code().value(), std::generic_category(), "no worker");
  }
  worker.process = process;
  ++worker.life;
  worker.started = Clock::now();
  worker.too_long = false;
  listen(worker);
}

std::uint64_t Workers::submit(Job job) {
  const std::uint64_t number = ++numbers_;
  if (!job.replaces.empty()) {
    for (auto at = queue_.begin(); at != queue_.end(); ++at) {
      if (at->job.replaces != job.replaces) continue;
      const auto done = std::move(at->job.done);
      queue_.erase(at);
      done(problem(409, "a newer request of the same page took its place"));
      break;
    }
  }
  if (stopped_ || queue_.size() >= limits_.queued) {
    job.done(problem(503, stopped_ ? "the server ends" : "too many requests wait; try again"));
    return number;
  }
  queue_.push_back({number, std::move(job)});
  hand_out();
  return number;
}

void Workers::interrupt(std::uint64_t job) {
  for (auto at = queue_.begin(); at != queue_.end(); ++at) {
    if (at->number != job) continue;
    const auto done = std::move(at->job.done);
    queue_.erase(at);
    done(problem(503, "stopped before it began"));
    return;
  }
  for (const auto& worker : workers_)
    if (worker->job && worker->job->number == job) ::kill(worker->process, SIGINT);
}

void Workers::hand_out() {
  for (const auto& worker : workers_) {
    if (queue_.empty()) return;
    if (worker->process < 0 || worker->job) continue;
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    give(*worker, std::move(next));
  }
}

void Workers::give(Worker& worker, Queued queued) {
  worker.job = std::move(queued);
  auto text = std::make_shared<std::string>(sizeof(Head), '\0');
  Head head;
  head.bytes = worker.job->job.request.size();
  std::memcpy(text->data(), &head, sizeof head);
  text->append(worker.job->job.request);
  // An error here is seen by the reader too.
  asio::async_write(worker.stream, asio::buffer(*text),
                    [text](const boost::system::error_code&, std::size_t) {});
  worker.timer.expires_after(limits_.time);
  worker.timer.async_wait([&worker, life = worker.life](const boost::system::error_code& error) {
    if (error || worker.life != life || worker.process < 0) return;
    worker.too_long = true;
    ::kill(-worker.process, SIGKILL);
  });
}

void Workers::listen(Worker& worker) {
  asio::async_read(
      worker.stream, asio::buffer(&worker.head, sizeof worker.head),
      [this, &worker, life = worker.life](const boost::system::error_code& error, std::size_t) {
        if (stopped_ || worker.life != life) return;
        if (error || worker.head.bytes > message_bytes_most) return lost(worker);
        worker.text.resize(worker.head.bytes);
        asio::async_read(
            worker.stream, asio::buffer(worker.text),
            [this, &worker, life](const boost::system::error_code& broken, std::size_t) {
              if (stopped_ || worker.life != life) return;
              if (broken) return lost(worker);
              heard(worker, worker.head.kind, std::move(worker.text));
              listen(worker);
            });
      });
}

void Workers::heard(Worker& worker, char kind, std::string text) {
  if (!worker.job) return;
  if (kind == done_kind) {
    end_job(worker, reply_of(std::move(text)));
  } else if (worker.job->job.told) {
    worker.job->job.told(std::move(text));
  }
}

void Workers::end_job(Worker& worker, Reply reply) {
  worker.timer.cancel();
  const auto done = std::move(worker.job->job.done);
  worker.job.reset();
  done(std::move(reply));
  hand_out();
}

void Workers::lost(Worker& worker) {
  const int status = end_process(worker.process);
  worker.process = -1;
  boost::system::error_code ignored;  // it is closed in any case
  worker.stream.close(ignored);
  std::string why = "its worker ended";
  if (worker.too_long) {
    why = fmt::format("stopped after {} s, the limit of a request (--time-limit)",
                      limits_.time.count());
  } else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
    why = fmt::format("the simulator stopped with signal {} ({}); this is a bug of ours",
                      WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  } else {
    why = fmt::format(
        "its worker was killed; it may have needed more memory than the machine or --memory-limit "
        "({} MiB) has",
        limits_.memory.n >> 20);
  }
  const bool at_once = Clock::now() - worker.started < soon && !worker.job;
  if (worker.job) end_job(worker, problem(503, why));
  if (stopped_) return;
  start_after(worker, at_once ? soon : std::chrono::seconds{0});
}

// Tries again after a pause where the machine has no process or no descriptor to spare.
void Workers::start_after(Worker& worker, std::chrono::seconds pause) {
  worker.timer.expires_after(pause);
  worker.timer.async_wait([this, &worker](const boost::system::error_code& error) {
    if (error || stopped_ || worker.process >= 0) return;
    try {
      start(worker);
    } catch (const std::system_error&) {
      return start_after(worker, soon);
    }
    hand_out();
  });
}

void Workers::stop() {
  if (stopped_) return;
  stopped_ = true;
  for (Queued& queued : std::exchange(queue_, {})) queued.job.done(problem(503, "the server ends"));
  for (const auto& worker : workers_) {
    if (worker->process < 0) continue;
    end_process(worker->process);
    worker->process = -1;
    if (worker->job) end_job(*worker, problem(503, "the server ends"));
  }
}

}  // namespace sim::command::web
