// The guide's promises: code that it quotes stands in the files that it names, links lead somewhere, commands
// run as written, and the Korean pages quote and run the same.

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <vector>

#include "tests/cli/program.h"
#include "transduce/base/text.h"
#include "transduce/lab/lab.h"

namespace transduce {
namespace {

namespace fs = std::filesystem;
using testing::contents;
using testing::Workplace;

const fs::path kDocs = fs::path(TRANSDUCE_TESTS) / ".." / "docs";
const fs::path kEnglish = kDocs / "guide", kKorean = kDocs / "ko" / "guide";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) lines.emplace_back(line);
  return lines;
}

std::string trimmed(const std::string& line) {
  const size_t first = line.find_first_not_of(' '), last = line.find_last_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first, last + 1 - first);
}

// A fenced block of a page, and the source file that was linked last before it.
struct Block {
  std::string language;
  std::vector<std::string> lines;
  std::string file;  // as the page's link has it
};

std::vector<Block> blocks_of(const fs::path& page) {
  std::vector<Block> blocks;
  std::string file;
  bool inside = false;
  const std::regex link(R"(\]\(([^)]+\.(h|cpp))\))");
  for (const std::string& line : lines_of(contents(page))) {
    std::smatch found;
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.push_back({line.substr(3), {}, file});
    } else if (inside) {
      blocks.back().lines.push_back(line);
    } else if (std::regex_search(line, found, link)) {
      file = found[1];
    }
  }
  EXPECT_FALSE(inside) << page << " has a block without an end";
  return blocks;
}

// A page without its blocks: code holds brackets that are no links.
std::string prose_of(const fs::path& page) {
  std::string prose;
  bool inside = false;
  for (const std::string& line : lines_of(contents(page))) {
    if (line.starts_with("```")) inside = !inside;
    if (!inside) prose += line + "\n";
  }
  return prose;
}

std::vector<fs::path> pages_of(const fs::path& folder) {
  std::vector<fs::path> pages;
  for (const auto& entry : fs::directory_iterator(folder)) pages.push_back(entry.path());
  std::sort(pages.begin(), pages.end());
  return pages;
}

// Whether the lines follow one another in the file, whatever their indentation.
bool stands_in(const std::vector<std::string>& quoted, const fs::path& file) {
  std::vector<std::string> wanted, all = lines_of(contents(file));
  for (const std::string& line : quoted) wanted.push_back(trimmed(line));
  for (std::string& line : all) line = trimmed(line);
  return std::search(all.begin(), all.end(), wanted.begin(), wanted.end()) != all.end();
}

TEST(Guide, QuotesWhatStandsInTheCode) {
  int quotes = 0;
  for (const fs::path& folder : {kEnglish, kKorean}) {
    for (const fs::path& page : pages_of(folder)) {
      for (const Block& block : blocks_of(page)) {
        if (block.language != "cpp") continue;
        ++quotes;
        ASSERT_FALSE(block.file.empty()) << page << ": a quote without the file it is from";
        EXPECT_TRUE(stands_in(block.lines, folder / block.file))
            << page << " quotes lines that are not in " << block.file << ":\n"
            << join(block.lines, "\n");
      }
    }
  }
  EXPECT_GE(quotes, 40);
}

TEST(Guide, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#]+)(#[^)]*)?\))");
  for (const fs::path& folder : {kEnglish, kKorean}) {
    for (const fs::path& page : pages_of(folder)) {
      const std::string text = prose_of(page);
      for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at) {
        const std::string target = (*at)[1];
        EXPECT_TRUE(target.starts_with("http") || fs::exists(folder / target)) << page << ": " << target;
      }
    }
  }
}

TEST(Guide, KoreanPagesQuoteAndRunTheSame) {
  const std::vector<fs::path> english = pages_of(kEnglish), korean = pages_of(kKorean);
  ASSERT_EQ(english.size(), korean.size());
  for (size_t i = 0; i < english.size(); ++i) {
    ASSERT_EQ(english[i].filename(), korean[i].filename());
    const std::vector<Block> one = blocks_of(english[i]), other = blocks_of(korean[i]);
    ASSERT_EQ(one.size(), other.size()) << korean[i];
    for (size_t b = 0; b < one.size(); ++b) {
      EXPECT_EQ(one[b].language, other[b].language) << korean[i];
      EXPECT_EQ(one[b].lines, other[b].lines) << korean[i];
    }
  }
}

// All commands of all chapters, in their order, in one folder. Experiments of the laboratory take longer and
// have a test of their own (tests/lab), so that here only their names are looked at.
TEST(Guide, CommandsRunAsWritten) {
  const Workplace place;
  const std::string path = fs::path(TRANSDUCE_PROGRAM).parent_path().string();
  int commands = 0;
  for (const fs::path& page : pages_of(kEnglish)) {
    for (const Block& block : blocks_of(page)) {
      if (block.language != "sh") continue;
      for (const std::string& command : block.lines) {
        ++commands;
        if (command.starts_with("transduce lab ")) {
          for (const std::string_view name : split(command.substr(14), ' '))
            EXPECT_NO_THROW(lab::experiment_named(std::string(name))) << command;
          continue;
        }
        testing::write(place / "command", command + "\n");
        const std::string run = "cd '" + (place / "").string() + "' && PATH='" + path +
                                "':$PATH bash -eo pipefail command >out 2>err </dev/null";
        EXPECT_EQ(std::system(run.c_str()), 0) << page << ": " << command << "\n" << contents(place / "err");
        const bool writes =
            command.find(" > ") != std::string::npos || command.find(" train ") != std::string::npos;
        EXPECT_TRUE(writes || !contents(place / "out").empty()) << command;
      }
    }
  }
  EXPECT_GE(commands, 20);
}

}  // namespace
}  // namespace transduce
