#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace transduce {

// A log with one JSON object a line.
class JsonLog {
 public:
  explicit JsonLog(const std::string& path) : path_(path) {}
  ~JsonLog();
  JsonLog(const JsonLog&) = delete;
  JsonLog& operator=(const JsonLog&) = delete;

  // Goes on behind the first `bytes` bytes of the file that is there; what follows them is cut off. Otherwise
  // the file is begun anew at the first line, so that a run that fails before leaves an older log alone.
  // Errors of all members: RunError naming the file and the system's reason.
  void resume(int64_t bytes);
  // Bytes of a text that are not UTF-8 become U+FFFD.
  void write(const nlohmann::ordered_json& object);
  // Waits until all is on the disk, and returns how long the file is.
  int64_t flush();
  // Whether this object has the file: a line was written, or the run was resumed.
  bool begun() const { return descriptor_ >= 0; }

 private:
  void open(int64_t keep_bytes);
  [[noreturn]] void fail() const;

  std::string path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace transduce
