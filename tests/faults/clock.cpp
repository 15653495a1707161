// clock.cpp — part of the library of interpose.cpp: with FAULT_CLOCK set, the time of day goes back
// by an hour whenever it is read. Clocks that measure durations stay right, as on a real machine.
#include <dlfcn.h>
#include <sys/time.h>

#include <atomic>
#include <cstdlib>
#include <ctime>

namespace {

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Seconds to take from the time of day.
time_t gone_back() {
  static const bool wanted = std::getenv("FAULT_CLOCK") != nullptr;
  static std::atomic<time_t> hours{0};
  return wanted ? 3600 * ++hours : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = real<int(clockid_t, struct timespec*)>("clock_gettime")(clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec -= gone_back();
  return result;
}

int gettimeofday(struct timeval* now, void* zone) {
  const int result = real<int(struct timeval*, void*)>("gettimeofday")(now, zone);
  now->tv_sec -= gone_back();
  return result;
}

time_t time(time_t* into) {
  const time_t now = real<time_t(time_t*)>("time")(nullptr) - gone_back();
  if (into) *into = now;
  return now;
}

}  // extern "C"
