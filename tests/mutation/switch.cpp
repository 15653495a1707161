#include "switch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

int mutation::on = 0;
unsigned char* mutation::reached = nullptr;

namespace {

// Before any constructor of the program. What was reached lives in a file that is mapped: it is
// kept however the process ends, and children add to it.
__attribute__((constructor(101))) void read_switches() {
  if (const char* text = std::getenv("REHEARSE_MUTANT")) mutation::on = std::atoi(text);
  const char* path = std::getenv("REHEARSE_REACHED");
  if (path == nullptr) return;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (file >= 0 && fstat(file, &status) == 0) {
    void* bytes = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ | PROT_WRITE,
                       MAP_SHARED, file, 0);
    if (bytes != MAP_FAILED) mutation::reached = static_cast<unsigned char*>(bytes);
  }
  if (file >= 0) close(file);
}

}  // namespace
