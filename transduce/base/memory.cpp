#include "transduce/base/memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "transduce/base/error.h"
#include "transduce/base/text.h"

namespace transduce {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
constexpr std::string_view kUnits = "KMGT";

// The number a file begins with ("max" is none).
int64_t number_of(const std::string& file) {
  std::ifstream in(file);
  int64_t value = 0;
  return in >> value ? value : kUnknown;
}

// The number after `name` in a file of lines "name 123".
int64_t number_of(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    int64_t value = 0;
    if (words >> word >> value && word == name) return value;
  }
  return kUnknown;
}

// What a control group has left. Its cache of files can be given up.
int64_t left_in(const std::string& folder, const char* limit_file, const char* usage_file,
                const char* cache) {
  const int64_t limit = number_of(folder + limit_file), usage = number_of(folder + usage_file);
  if (limit == kUnknown || usage == kUnknown) return kUnknown;
  const int64_t files = number_of(folder + "/memory.stat", cache);
  return std::max<int64_t>(0, limit - usage + (files == kUnknown ? 0 : std::min(files, usage)));
}

// The least that the groups from `path` up to the root have left.
int64_t left_in_groups(const std::string& root, std::string path, bool version2) {
  int64_t least = kUnknown;
  for (;;) {
    const std::string folder = root + path;
    least = std::min(least, version2 ? left_in(folder, "/memory.max", "/memory.current", "inactive_file")
                                     : left_in(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                               "total_inactive_file"));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return least;
    path.erase(slash);
  }
}

}  // namespace

int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t pages = 0, resident = 0, shared = 0;
  return in >> pages >> resident >> shared ? (resident - shared) * sysconf(_SC_PAGESIZE) : 0;
}

int64_t available_bytes() {
  int64_t least = number_of("/proc/meminfo", "MemAvailable:");
  if (least != kUnknown) least *= 1024;
  std::ifstream groups("/proc/self/cgroup");  // lines of hierarchy:controllers:path
  for (std::string line; std::getline(groups, line);) {
    const auto fields = split(line, ':');
    if (fields.size() < 3) continue;
    const std::string path(fields[2]);
    if (fields[1].empty()) {
      least = std::min(least, left_in_groups("/sys/fs/cgroup", path, true));
    } else if (fields[1] == "memory") {
      least = std::min(least, left_in_groups("/sys/fs/cgroup/memory", path, false));
    }
  }
  return least;
}

int64_t parse_bytes(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string unit;
  for (; *end != '\0'; ++end) {
    if (*end != ' ') unit += static_cast<char>(std::toupper(static_cast<unsigned char>(*end)));
  }
  double factor = 1.0;
  const size_t power = unit.empty() ? std::string_view::npos : kUnits.find(unit[0]);
  const std::string rest = power == std::string_view::npos ? unit : unit.substr(1);
  if (power != std::string_view::npos) factor = std::pow(1024.0, static_cast<double>(power + 1));
  const bool is_size = end != text.c_str() && std::isfinite(number) && number > 0.0 &&
                       number * factor < 1e18 && number * factor >= 1.0 &&
                       (rest.empty() || rest == "B" || (rest == "IB" && factor > 1.0));
  check_input(is_size, "{} is no amount of memory: give a number of bytes, or one with K, M, G or T, e.g. 8G",
              in_quotes(text));
  return static_cast<int64_t>(number * factor);
}

std::string bytes_text(int64_t bytes) {
  auto value = static_cast<double>(bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  size_t unit = 0;
  for (value /= 1024.0; value >= 1024.0 && unit + 1 < kUnits.size(); ++unit) value /= 1024.0;
  return fmt::format("{:.{}f} {}iB", value, value < 100.0 ? 1 : 0, kUnits[unit]);
}

}  // namespace transduce
