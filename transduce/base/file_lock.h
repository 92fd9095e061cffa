#pragma once

#include <string>

namespace transduce {

// A file that one process at a time may hold (flock). The kernel lets go of it when the process ends, however
// it ends, so nobody is locked out by what a killed process left behind.
class FileLock {
 public:
  // Takes the lock, making the file where there is none; does not wait. A file system that has no locks locks
  // nobody out. Errors: InputError when the file cannot be opened.
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // False: another process, or another FileLock of this one, holds it.
  bool held() const { return held_; }
  // "process 1234", or "another process" where it has not said: who holds it. For error messages.
  const std::string& holder() const { return holder_; }

 private:
  int descriptor_ = -1;
  bool held_ = false;
  std::string holder_ = "another process";
};

}  // namespace transduce
