#pragma once

// A file that is read where it lies: the system brings its pages in as they are looked at.

#include <cstddef>
#include <string>
#include <string_view>

namespace transduce {

class MappedFile {
 public:
  // A file that may be replaced by renaming while it is in use, but not be written into.
  // Errors: InputError when it cannot be read, or is no regular file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }

  // Pages that were looked at count as memory of this process until now; they come in again when needed.
  void let_go() const;

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace transduce
