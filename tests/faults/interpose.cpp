// interpose.cpp — a library for LD_PRELOAD that spoils one system call of a program: the
// FAULT_AT-th (from 1) of those below, counted over all processes of the run, in the way FAULT_KIND
// says.
//
//   fail         the call is not made; EIO, or what that call says when it cannot
//   full         the disk is full: ENOSPC from calls that need room, the others are made
//   short        half of the bytes are written or read
//   interrupted  EINTR, once
//   kill-before  SIGKILL instead of the call
//   kill-after   SIGKILL after the call
//
// FAULT_COUNT names a file of 8 + N bytes: how many calls there were, then a byte for each of the
// first N, the sum of the kinds that it can suffer besides `fail`: 1 full, 2 short, 4 interrupted,
// 8 the two kills (the call changes files). Without FAULT_AT calls are only counted.
//
// Calls that the C library makes inside itself are not seen: printf's write, malloc's mmap.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

enum class Way { count, fail, full, shortened, interrupted, kill_before, kill_after };

struct State {
  std::uint64_t* calls = nullptr;  // shared by all processes, as are the bytes after it
  std::uint64_t bytes = 0;         // one for each call
  std::uint64_t at = 0;
  Way way = Way::count;
};

Way way_of(std::string_view kind) {
  if (kind == "fail") return Way::fail;
  if (kind == "full") return Way::full;
  if (kind == "short") return Way::shortened;
  if (kind == "interrupted") return Way::interrupted;
  if (kind == "kill-before") return Way::kill_before;
  if (kind == "kill-after") return Way::kill_after;
  return Way::count;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

State& state() {
  static State made = [] {
    State s;
    const char* path = std::getenv("FAULT_COUNT");
    if (!path) return s;
    const int file = real<int(const char*, int, ...)>("open")(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return s;
    struct stat status {};
    const bool sized = real<int(int, struct stat*)>("fstat")(file, &status) == 0;
    const std::size_t size = sized ? static_cast<std::size_t>(status.st_size) : 0;
    void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    real<int(int)>("close")(file);
    if (page == MAP_FAILED || size < sizeof(std::uint64_t)) return s;
    s.calls = static_cast<std::uint64_t*>(page);
    s.bytes = size - sizeof(std::uint64_t);
    if (const char* at = std::getenv("FAULT_AT")) s.at = std::strtoull(at, nullptr, 10);
    if (const char* kind = std::getenv("FAULT_KIND")) s.way = way_of(kind);
    return s;
  }();
  return made;
}

// What a call is when it goes wrong: its errno when it fails, and which other faults can befall it.
struct Character {
  int error = EIO;
  bool needs_room = false;
  bool has_size = false;
  bool may_be_interrupted = false;
  bool changes_files = false;

  std::uint8_t kinds() const {
    return static_cast<std::uint8_t>((needs_room ? 1 : 0) | (has_size ? 2 : 0) |
                                     (may_be_interrupted ? 4 : 0) | (changes_files ? 8 : 0));
  }
};

// How this call is spoilt; Way::count leaves it alone.
Way now(Character character) {
  State& s = state();
  if (!s.calls) return Way::count;
  const std::uint64_t call = __atomic_add_fetch(s.calls, 1, __ATOMIC_SEQ_CST);
  if (call <= s.bytes) reinterpret_cast<std::uint8_t*>(s.calls + 1)[call - 1] = character.kinds();
  if (s.at == 0 || call != s.at) return Way::count;
  if (s.way == Way::kill_before) kill(getpid(), SIGKILL);
  return s.way;
}

template <typename Result, typename Call>
Result spoilt(Character character, Call call) {
  const Way way = now(character);
  const auto refuse = [](int error) {
    errno = error;
    return static_cast<Result>(-1);
  };
  if (way == Way::fail) return refuse(character.error);
  if (way == Way::full && character.needs_room) return refuse(ENOSPC);
  if (way == Way::interrupted && character.may_be_interrupted) return refuse(EINTR);
  const Result result = call(way == Way::shortened);
  if (way == Way::kill_after) kill(getpid(), SIGKILL);
  return result;
}

std::size_t half(std::size_t bytes, bool shortened) {
  return shortened && bytes > 1 ? bytes / 2 : bytes;
}

bool makes_file(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

Character character_of(int flags) {
  return {.error = EMFILE,
          .needs_room = makes_file(flags),
          .may_be_interrupted = (flags & O_DIRECTORY) == 0 || makes_file(flags),
          .changes_files = (flags & O_ACCMODE) != O_RDONLY};
}

int opened(const char* name, const char* path, int flags, mode_t mode) {
  return spoilt<int>(character_of(flags), [&](bool) {
    return real<int(const char*, int, ...)>(name)(path, flags, mode);
  });
}

mode_t mode_of(int flags, va_list list) {
  return makes_file(flags) ? static_cast<mode_t>(va_arg(list, int)) : 0;
}

constexpr Character reading{.has_size = true, .may_be_interrupted = true};
constexpr Character writing{
    .needs_room = true, .has_size = true, .may_be_interrupted = true, .changes_files = true};
constexpr Character receiving{.error = ECONNRESET, .has_size = true, .may_be_interrupted = true};
constexpr Character sending{.error = EPIPE, .has_size = true, .may_be_interrupted = true};
constexpr Character looking{};
constexpr Character renaming{.error = EACCES, .needs_room = true, .changes_files = true};
constexpr Character removing{.error = EACCES, .changes_files = true};

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return opened("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return opened("open64", path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return spoilt<int>(character_of(flags), [&](bool) {
    return real<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode);
  });
}

// Linux closes a file even when it reports an error.
int close(int file) {
  const int closed = real<int(int)>("close")(file);
  return spoilt<int>({}, [&](bool) { return closed; });
}

int stat(const char* path, struct stat* status) {
  return spoilt<int>(
      looking, [&](bool) { return real<int(const char*, struct stat*)>("stat")(path, status); });
}

int stat64(const char* path, struct stat64* status) {
  return spoilt<int>(looking, [&](bool) {
    return real<int(const char*, struct stat64*)>("stat64")(path, status);
  });
}

int lstat(const char* path, struct stat* status) {
  return spoilt<int>(
      looking, [&](bool) { return real<int(const char*, struct stat*)>("lstat")(path, status); });
}

int fstat(int file, struct stat* status) {
  return spoilt<int>({}, [&](bool) { return real<int(int, struct stat*)>("fstat")(file, status); });
}

int fstat64(int file, struct stat64* status) {
  return spoilt<int>({},
                     [&](bool) { return real<int(int, struct stat64*)>("fstat64")(file, status); });
}

int access(const char* path, int how) {
  return spoilt<int>(looking,
                     [&](bool) { return real<int(const char*, int)>("access")(path, how); });
}

ssize_t read(int file, void* bytes, size_t size) {
  return spoilt<ssize_t>(reading, [&](bool shortened) {
    return real<ssize_t(int, void*, size_t)>("read")(file, bytes, half(size, shortened));
  });
}

ssize_t pread64(int file, void* bytes, size_t size, off64_t from) {
  return spoilt<ssize_t>(reading, [&](bool shortened) {
    return real<ssize_t(int, void*, size_t, off64_t)>("pread64")(file, bytes, half(size, shortened),
                                                                 from);
  });
}

ssize_t write(int file, const void* bytes, size_t size) {
  return spoilt<ssize_t>(writing, [&](bool shortened) {
    return real<ssize_t(int, const void*, size_t)>("write")(file, bytes, half(size, shortened));
  });
}

// Shortened, it writes the first of its parts.
ssize_t writev(int file, const struct iovec* parts, int count) {
  return spoilt<ssize_t>(writing, [&](bool shortened) {
    return real<ssize_t(int, const struct iovec*, int)>("writev")(file, parts,
                                                                  shortened ? 1 : count);
  });
}

ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t from) {
  return spoilt<ssize_t>(writing, [&](bool shortened) {
    return real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(
        file, bytes, half(size, shortened), from);
  });
}

void* mmap64(void* near, size_t size, int may, int how, int file, off64_t from) {
  void* page = MAP_FAILED;
  return spoilt<int>({.error = ENOMEM},
                     [&](bool) {
                       page = real<void*(void*, size_t, int, int, int, off64_t)>("mmap64")(
                           near, size, may, how, file, from);
                       return page == MAP_FAILED ? -1 : 0;
                     }) == 0
             ? page
             : MAP_FAILED;
}

int fsync(int file) {
  return spoilt<int>({.needs_room = true, .may_be_interrupted = true, .changes_files = true},
                     [&](bool) { return real<int(int)>("fsync")(file); });
}

int fdatasync(int file) {
  return spoilt<int>({.needs_room = true, .may_be_interrupted = true, .changes_files = true},
                     [&](bool) { return real<int(int)>("fdatasync")(file); });
}

int ftruncate(int file, off_t size) {
  return spoilt<int>({.may_be_interrupted = true, .changes_files = true},
                     [&](bool) { return real<int(int, off_t)>("ftruncate")(file, size); });
}

int ftruncate64(int file, off64_t size) {
  return spoilt<int>({.may_be_interrupted = true, .changes_files = true},
                     [&](bool) { return real<int(int, off64_t)>("ftruncate64")(file, size); });
}

int fchmod(int file, mode_t mode) {
  return spoilt<int>({.error = EPERM, .changes_files = true},
                     [&](bool) { return real<int(int, mode_t)>("fchmod")(file, mode); });
}

int flock(int file, int how) {
  return spoilt<int>({.error = ENOLCK, .may_be_interrupted = true},
                     [&](bool) { return real<int(int, int)>("flock")(file, how); });
}

int rename(const char* from, const char* to) {
  return spoilt<int>(renaming,
                     [&](bool) { return real<int(const char*, const char*)>("rename")(from, to); });
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  return spoilt<int>(renaming, [&](bool) {
    return real<int(int, const char*, int, const char*, int)>("linkat")(from_folder, from,
                                                                        to_folder, to, flags);
  });
}

int unlink(const char* path) {
  return spoilt<int>(removing, [&](bool) { return real<int(const char*)>("unlink")(path); });
}

int unlinkat(int folder, const char* path, int flags) {
  return spoilt<int>(removing, [&](bool) {
    return real<int(int, const char*, int)>("unlinkat")(folder, path, flags);
  });
}

int remove(const char* path) {
  return spoilt<int>(removing, [&](bool) { return real<int(const char*)>("remove")(path); });
}

int mkdir(const char* path, mode_t mode) {
  return spoilt<int>({.error = EACCES, .needs_room = true, .changes_files = true},
                     [&](bool) { return real<int(const char*, mode_t)>("mkdir")(path, mode); });
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  const int problem = spoilt<int>({.error = EAGAIN}, [&](bool) {
    return real<decltype(pthread_create)>("pthread_create")(thread, attributes, start, argument);
  });
  return problem == -1 ? EAGAIN : problem;  // it returns its errno
}

int pipe2(int ends[2], int flags) {
  return spoilt<int>({.error = EMFILE},
                     [&](bool) { return real<int(int*, int)>("pipe2")(ends, flags); });
}

int socketpair(int domain, int type, int protocol, int ends[2]) {
  return spoilt<int>({.error = EMFILE}, [&](bool) {
    return real<int(int, int, int, int*)>("socketpair")(domain, type, protocol, ends);
  });
}

int socket(int domain, int type, int protocol) {
  return spoilt<int>({.error = EMFILE}, [&](bool) {
    return real<int(int, int, int)>("socket")(domain, type, protocol);
  });
}

int bind(int file, const struct sockaddr* address, socklen_t size) {
  return spoilt<int>({.error = EADDRINUSE}, [&](bool) {
    return real<int(int, const struct sockaddr*, socklen_t)>("bind")(file, address, size);
  });
}

int listen(int file, int waiting) {
  return spoilt<int>({.error = EADDRINUSE},
                     [&](bool) { return real<int(int, int)>("listen")(file, waiting); });
}

int accept(int file, struct sockaddr* address, socklen_t* size) {
  return spoilt<int>({.error = EMFILE, .may_be_interrupted = true}, [&](bool) {
    return real<int(int, struct sockaddr*, socklen_t*)>("accept")(file, address, size);
  });
}

ssize_t recv(int file, void* bytes, size_t size, int flags) {
  return spoilt<ssize_t>(receiving, [&](bool shortened) {
    return real<ssize_t(int, void*, size_t, int)>("recv")(file, bytes, half(size, shortened),
                                                          flags);
  });
}

ssize_t recvmsg(int file, struct msghdr* message, int flags) {
  return spoilt<ssize_t>(receiving, [&](bool shortened) {
    msghdr part = *message;
    if (shortened && part.msg_iovlen > 1) part.msg_iovlen = 1;
    return real<ssize_t(int, struct msghdr*, int)>("recvmsg")(file, &part, flags);
  });
}

ssize_t send(int file, const void* bytes, size_t size, int flags) {
  return spoilt<ssize_t>(sending, [&](bool shortened) {
    return real<ssize_t(int, const void*, size_t, int)>("send")(file, bytes, half(size, shortened),
                                                                flags);
  });
}

ssize_t sendmsg(int file, const struct msghdr* message, int flags) {
  return spoilt<ssize_t>(sending, [&](bool shortened) {
    msghdr part = *message;
    if (shortened && part.msg_iovlen > 1) part.msg_iovlen = 1;
    return real<ssize_t(int, const struct msghdr*, int)>("sendmsg")(file, &part, flags);
  });
}

int epoll_create1(int flags) {
  return spoilt<int>({.error = EMFILE},
                     [&](bool) { return real<int(int)>("epoll_create1")(flags); });
}

int epoll_ctl(int queue, int how, int file, struct epoll_event* event) {
  return spoilt<int>({.error = ENOSPC}, [&](bool) {
    return real<int(int, int, int, struct epoll_event*)>("epoll_ctl")(queue, how, file, event);
  });
}

int eventfd(unsigned value, int flags) {
  return spoilt<int>({.error = EMFILE},
                     [&](bool) { return real<int(unsigned, int)>("eventfd")(value, flags); });
}

int timerfd_create(clockid_t clock, int flags) {
  return spoilt<int>({.error = EMFILE}, [&](bool) {
    return real<int(clockid_t, int)>("timerfd_create")(clock, flags);
  });
}

int chdir(const char* path) {
  return spoilt<int>({.error = EACCES},
                     [&](bool) { return real<int(const char*)>("chdir")(path); });
}

char* mkdtemp(char* name) {
  return spoilt<int>(
             {.error = EACCES, .needs_room = true},
             [&](bool) { return real<char*(char*)>("mkdtemp")(name) != nullptr ? 0 : -1; }) == 0
             ? name
             : nullptr;
}

int poll(struct pollfd* files, nfds_t number, int patience) {
  return spoilt<int>({.error = ENOMEM, .may_be_interrupted = true}, [&](bool) {
    return real<int(struct pollfd*, nfds_t, int)>("poll")(files, number, patience);
  });
}

FILE* fopen64(const char* path, const char* mode) {
  FILE* file = nullptr;
  return spoilt<int>({.error = EMFILE, .needs_room = *mode != 'r'},
                     [&](bool) {
                       file = real<FILE*(const char*, const char*)>("fopen64")(path, mode);
                       return file ? 0 : -1;
                     }) == 0
             ? file
             : nullptr;
}

int posix_spawn(pid_t* process, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const arguments[],
                char* const variables[]) {
  const int problem = spoilt<int>({.error = EAGAIN}, [&](bool) {
    return real<decltype(posix_spawn)>("posix_spawn")(process, path, actions, attributes, arguments,
                                                      variables);
  });
  return problem == -1 ? EAGAIN : problem;  // it returns its errno
}

pid_t fork() {
  return spoilt<pid_t>({.error = EAGAIN}, [&](bool) { return real<pid_t()>("fork")(); });
}

pid_t waitpid(pid_t process, int* status, int options) {
  return spoilt<pid_t>({.error = ECHILD, .may_be_interrupted = true}, [&](bool) {
    return real<pid_t(pid_t, int*, int)>("waitpid")(process, status, options);
  });
}

}  // extern "C"
