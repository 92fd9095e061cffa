#pragma once

#include <string>
#include <string_view>

namespace transduce {

// A file without a name: it is gone when this object or the process ends, however it ends. It is written once
// and then read through path() as often as needed.
class TemporaryFile {
 public:
  // On the disk of `directory`. Errors: InputError when nothing can be written there.
  explicit TemporaryFile(const std::string& directory);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  // Appends bytes, at once: give many together. Errors: RunError when the disk is full.
  void write(std::string_view bytes);

  // Opens what was written so far, from its beginning; of use in this process alone.
  std::string path() const;

 private:
  std::string directory_;
  int descriptor_ = -1;
};

}  // namespace transduce
