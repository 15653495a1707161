// whole_file.h — writes a file that appears under its name only when it is complete.
//
// Content goes to a temporary file in the same folder. commit() syncs it and renames it over the
// old file. A crash, a kill or a full disk before that leaves the old file as it was. The temporary
// file has no name until commit() where the file system allows it (O_TMPFILE); elsewhere a kill may
// leave NAME.PID.new. All writers of results use this class: documents, traces, pictures, records
// and the network cache.
//
// Special files (/dev/full, pipes) are written directly, and descriptors of this process
// (/dev/stdout, /dev/fd/3) where they stand: `>> log` stays whole. A symbolic link stays, and
// the file that it names is replaced. The new file keeps the permissions of the old one.
//
// Functions return "" or the error: the file and the system's reason ("results.csv: No space left
// on device").
#pragma once

#include <string>
#include <string_view>

namespace sim {

class WholeFile {
 public:
  WholeFile() = default;
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  // Without commit(), removes the temporary file.
  ~WholeFile();

  // REQUIRES: no file is open.
  std::string open(const std::string& path);
  bool is_open() const { return descriptor_ >= 0; }
  // After the first failure nothing more is written; commit() then fails, too.
  std::string write(std::string_view bytes);
  // Syncs, renames and closes. `durable`: the file survives a crash of the machine; caches that
  // check what they read need no sync. REQUIRES: a file is open.
  std::string commit(bool durable = true);

 private:
  std::string problem(int error) const;
  void open_temporary();
  int name_and_rename();

  int descriptor_ = -1;
  std::string path_;       // as the caller names it
  std::string target_;     // links resolved
  std::string temporary_;  // empty for a special file, and while the file has no name
  bool nameless_ = false;
  std::string problem_;
};

// Writes a whole file at once.
std::string write_whole(const std::string& path, std::string_view text, bool durable = true);

// Writes all bytes to a descriptor, through interruptions and short writes. Returns 0 or errno.
int write_all(int descriptor, std::string_view bytes);

}  // namespace sim
